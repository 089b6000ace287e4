"""Built-in commands, one module each."""
