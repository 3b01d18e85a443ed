"""Several tables of the same records at once: they agree on the marginals they share."""
