"""Pictures of the papers, and of what was built."""
