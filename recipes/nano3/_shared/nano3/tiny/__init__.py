"""The tiny path: the same architecture in Hugging Face transformers, small enough for two processor cores."""
