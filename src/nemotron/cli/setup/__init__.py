"""`nemotron init`: questions, and the files that come of the answers."""
