"""Counting: records coded, bounded and counted in the engine, and the files of true counts."""
