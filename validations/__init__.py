"""What is checked: the release spec, microdata, counts, publication."""
