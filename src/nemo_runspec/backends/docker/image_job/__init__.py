"""The internal recipe whose job builds an image: `make.py`, and its config. It travels with the job."""
