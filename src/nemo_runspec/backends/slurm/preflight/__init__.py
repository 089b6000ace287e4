"""Whether a Slurm profile is going to work: a login node is asked everything in one round trip, and told in checks."""
