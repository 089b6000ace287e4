"""What nemotron asks of a Slurm cluster and tells it: each module is one errand, in as few round trips as it can be."""
