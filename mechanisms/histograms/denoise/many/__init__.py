"""Many small tables of one shape, each on its own: what ``denoise_table`` does, without its overhead."""
