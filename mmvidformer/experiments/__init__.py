"""Rows of tables as experiments: runs with several seeds, and what they show."""
