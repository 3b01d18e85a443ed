"""Commands about what was published: read it, ask it, check it, show it, make it anew, withdraw it."""
