"""Checks before a job of any cloud, by subject; `checks` runs them."""
