"""Hydra composition with the profile as a layer."""
