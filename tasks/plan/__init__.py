"""Planning: from wanted margins of error to a spec's budget, shares and levels. Opens no data."""
