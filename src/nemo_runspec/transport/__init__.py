"""The connection to the machine that submits a job: this one, or a login node over one SSH connection."""
