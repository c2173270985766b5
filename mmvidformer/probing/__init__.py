"""Classifiers on features of a frozen backbone, and what the methods of fine-tuning cost."""

from mmvidformer.probing.compare import compare_methods, share
from mmvidformer.probing.features import Split, read_features
from mmvidformer.probing.probes import Result, probe

__all__ = ["Result", "Split", "compare_methods", "probe", "read_features", "share"]
