"""Annotation readers, transforms, and the motion data set that the package makes itself."""

from mmvidformer.datasets.epic_kitchens import EpicKitchensDataset

__all__ = ["EpicKitchensDataset"]
