"""Annotation readers, transforms, and the motion data set that the package makes itself."""

from mmvidformer.datasets.anticipation import AnticipationDataset
from mmvidformer.datasets.class_subset import ClassSubsetDataset
from mmvidformer.datasets.decoding.safe_dataset import SafeDataset
from mmvidformer.datasets.epic_kitchens import EpicKitchensDataset
from mmvidformer.datasets.image_folder import ImageFolderDataset
from mmvidformer.datasets.tiled_video import TiledVideoDataset

__all__ = [
    "AnticipationDataset",
    "ClassSubsetDataset",
    "EpicKitchensDataset",
    "ImageFolderDataset",
    "SafeDataset",
    "TiledVideoDataset",
]
