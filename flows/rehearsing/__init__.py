"""Rehearsals: a spec tried on made-up records, through the whole chain, in a temporary home."""
