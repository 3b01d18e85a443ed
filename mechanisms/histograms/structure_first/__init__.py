"""StructureFirst, its boundaries, and the split of its budget."""
