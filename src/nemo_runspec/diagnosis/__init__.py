"""Why a job of a cloud failed or does not start: what platforms' words mean, and one verdict of them all."""
