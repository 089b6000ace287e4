"""Recipe and configuration become one frozen plan."""
