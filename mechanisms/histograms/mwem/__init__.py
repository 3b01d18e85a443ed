"""MWEM, its workloads, and multiplicative weights."""
