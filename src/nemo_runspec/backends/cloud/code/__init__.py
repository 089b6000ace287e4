"""How a job's files and its code reach its pods."""
