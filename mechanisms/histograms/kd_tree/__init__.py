"""The two kd-trees, and the boxes of cells that they grow."""
