"""From wanted margins of error to a spec's budget, shares and levels, and what they cost. Opens no data."""
