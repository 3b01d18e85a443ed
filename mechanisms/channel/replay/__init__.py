"""The replay audit: a mechanism runs on two neighbours with the same outputs; every draw is accounted for."""
