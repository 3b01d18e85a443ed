"""Static pages over all releases of a folder: products, periods, search, download, feeds, budget."""
