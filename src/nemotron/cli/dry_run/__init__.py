"""The dry run: a plan and what would be sent, as a page, whole, or one part of it alone."""
