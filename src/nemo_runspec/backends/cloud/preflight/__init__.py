"""What is looked at before a job of any cloud, by subject; `checks` runs it."""
