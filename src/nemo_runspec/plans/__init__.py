"""A plan: the one value that crosses into a backend, its target, and where its job's storage is."""
