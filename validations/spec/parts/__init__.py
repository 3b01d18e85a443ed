"""The pieces that a release spec is put together from, each as an engineer writes it."""
