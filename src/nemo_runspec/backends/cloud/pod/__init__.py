"""What runs in a pod, and what it says with its last lines."""
