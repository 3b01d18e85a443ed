"""Many small tables of one shape at once, each on its own: what ``denoise_table`` does, without its overhead."""
