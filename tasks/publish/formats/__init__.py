"""How a release's tables are written: one module for each format, and `writers`, which calls them."""
