"""Brings a job's files and its code to its pods."""
