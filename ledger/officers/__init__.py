"""What disclosure officers decide, and the keys they sign with."""
