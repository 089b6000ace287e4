"""The Python API behind `nemo_runspec.submit`, `job`, `jobs` and `sweep`: what the commands ask, as objects."""
