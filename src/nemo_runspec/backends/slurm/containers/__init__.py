"""Container images on Slurm: squash files of images in a registry, and builds of recipes of `kind = "build"`."""
