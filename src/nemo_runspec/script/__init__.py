"""The job side: one bash script for all backends, and the exit markers it leaves."""
