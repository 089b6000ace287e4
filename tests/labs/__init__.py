"""Real parts that tests run against, each installed by a script in `.ci`."""
