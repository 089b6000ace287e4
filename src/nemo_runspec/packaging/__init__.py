"""What is shipped: the job bundle and the code package."""
