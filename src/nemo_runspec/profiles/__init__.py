"""`env.toml`: execution profiles."""
