"""Shipped configs adapted to your videos, with labels or without."""
