"""Files on disk and in object storage, by their addresses."""
