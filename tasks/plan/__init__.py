"""From wanted margins of error to budget, shares and levels; opens no data."""
