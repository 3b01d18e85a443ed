"""Whether a published release is what it says, found out from its folder alone, offline."""
