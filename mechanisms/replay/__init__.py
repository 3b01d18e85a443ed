"""The replay audit: a mechanism is run on two neighbours with the same outputs, and every draw accounted for."""
