"""DAWA: its intervals, its tree of buckets, and the curve that makes tables rows."""
