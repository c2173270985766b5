"""Launching, checkpoints, preflight and optimisation of runs; import from the modules."""
