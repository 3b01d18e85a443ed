"""Commands that run an installation, one file a command."""
