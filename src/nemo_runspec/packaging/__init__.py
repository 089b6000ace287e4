"""The contents of a job: its bundle and the code package."""
