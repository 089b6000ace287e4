"""The skeleton of clouds: code and data that pods fetch for themselves, what runs in a pod, limits on waiting."""
