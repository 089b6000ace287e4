"""Sweeps: several runs of one recipe under one group, run side by side, compared at the end."""
