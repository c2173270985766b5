"""Datasets and transforms that MMAction2 lacks, and generated videos to try them on."""

from mmvidformer.datasets.anticipation import AnticipationDataset
from mmvidformer.datasets.class_subset import ClassSubsetDataset
from mmvidformer.datasets.decoding.guard import SafeDataset
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
