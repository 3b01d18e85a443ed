"""Commands about what was published: query, verify, show, rebuild and withdraw it."""
