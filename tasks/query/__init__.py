"""Questions to a published release."""
