"""Metrics that MMAction2 lacks."""

from mmvidformer import registry  # noqa: F401  (repairs MMAction2 first)
