"""Optimisers, learning rates by layer, precision, compilation, non-finite losses."""
