"""Classifiers on features of a frozen backbone, and what the methods of fine-tuning cost."""

from mmvidformer.probing.compare import compare_methods, share
from mmvidformer.probing.probes import probe

__all__ = ["compare_methods", "probe", "share"]
