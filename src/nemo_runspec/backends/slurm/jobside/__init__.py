"""The programs around a job on Slurm: its batch script, from `setup_lines` on, and the step that runs the job itself.

As all of the job side: Python 3.6 and later, the standard library alone. `render.py` makes `slurm.py` of it,
which lies in the job's directory; `batch.sh` there begins it.
"""
