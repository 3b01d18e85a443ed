"""Tables most of which are empty: the mixture over partitions in which half a box may be empty."""
