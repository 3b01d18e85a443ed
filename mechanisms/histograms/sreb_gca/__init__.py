"""SReB_GCA, and its groups."""
