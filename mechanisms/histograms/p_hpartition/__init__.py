"""P-HPartition, and the bisection of parts."""
