"""How far published numbers may lie from the truth, and how that is known."""
