"""Checkers: what lies at a path is what its type says, or the file and row that is wrong. They travel with jobs."""
