"""Commands that run an installation, one file each."""
