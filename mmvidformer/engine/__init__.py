"""Launching, checkpoints, preflight and optimization of runs; import from the modules."""

from mmvidformer import registry  # noqa: F401  (repairs MMAction2 first)
