"""Launching, checkpoints, preflight and optimization of runs; import from the modules."""
