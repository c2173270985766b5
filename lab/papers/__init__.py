"""Rows of the papers' tables: their runs, sizes and statistics."""
