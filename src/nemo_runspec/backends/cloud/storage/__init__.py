"""S3: a small client that also travels with jobs, a job's inputs and outputs, packages of code."""
