"""The chain of entries: what an entry is, how the whole is verified, exported, and witnessed."""
