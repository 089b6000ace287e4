"""The programs that run where a job runs: the supervisor of its nodes and ranks.

Python 3.6 and later, and the standard library alone: an image or a login node has whatever it has. Start-up time is
every rank's, so modules import no more than they use (no pathlib, typing, dataclasses, subprocess), and what only some
jobs need is imported where they need it. `script/programs.py` makes one file of these modules.
"""
