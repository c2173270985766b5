"""Checkpoints that are complete or not there, resuming, and stopping on a signal."""
