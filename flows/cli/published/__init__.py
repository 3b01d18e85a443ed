"""Commands about published releases: read, query, verify, show, make again, withdraw."""
