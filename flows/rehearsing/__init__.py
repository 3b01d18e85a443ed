"""Rehearsals: a spec tried on made-up records, through the whole chain, under a home that is thrown away."""
