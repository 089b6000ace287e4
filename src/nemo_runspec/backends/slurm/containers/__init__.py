"""Container images on Slurm: squash files of images in a registry, and builds of recipes of `kind = "build"`."""

from __future__ import annotations

NOT_OF_BUILDS = frozenset({
    "nodes", "gpus_per_node", "nproc_per_node", "container_image", "startup_commands", "run_command", "workdir",
    "packager", "packager_subpath", "packager_include_submodules", "packager_include_pattern",
    "packager_relative_path", "packager_sub_packagers", "packager_extract_at_root", "dirty", "array", "constraint",
    "cpus_per_gpu", "dependencies", "dependency_type", "exclusive", "gpus_per_task", "gres", "mem_per_gpu",
    "memory_measure", "network", "segment", "secrets", "signal", "srun_args", "container_env", "health_check",
    "stall_timeout", "stall_action", "resume", "max_restarts",
})  # fmt: skip
"""Profile keys that say how training jobs look; a build has an image, a shape and a command of its own.

The recipe and the command line can still set them.
"""
