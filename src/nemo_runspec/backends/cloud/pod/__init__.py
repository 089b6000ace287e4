"""The programs that run in a pod, and the lines that they end with."""
