"""The same architecture in Hugging Face transformers: `tiny` for two processor cores, `small` for some GPUs."""
