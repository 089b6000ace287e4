"""What the runners of steps share; it travels in the job bundle, importable as `nemo_steps`."""
