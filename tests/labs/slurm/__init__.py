"""A real Slurm of several nodes on one machine: `cluster.SlurmLab`, and pytest's fixtures for it in `fixtures`."""
