"""A pod of a job, on platforms of pods: process 1 of its container, from its first line to its last ones.

It goes only with jobs of these platforms. Which node a pod is, the platform's own module knows (`backends/*/node.py`).
"""
