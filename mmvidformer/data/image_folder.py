import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

import os

from mmaction.datasets.base import BaseActionDataset
from torchvision.datasets.folder import IMG_EXTENSIONS

from mmvidformer.catalog import DATASETS
from mmvidformer.data.folders import find_names, list_folders
from mmvidformer.errors import MissingFile, UserError


@DATASETS.add
class ImageFolderDataset(BaseActionDataset):
    """Images in ImageNet's layout, ``ROOT/CLASS/.../IMAGE``, to pretrain a backbone.

    Each image is a clip of one frame, which MMAction2's ``ImageDecode`` reads. Classes are the
    sorted folder names, as in torchvision's ``ImageFolder``, but no hidden ones.

    Args:
        root: Folder of the classes' folders.
        pipeline: Transforms, starting with ``ImageDecode``.
        classes_from: Folder whose subfolders define the classes, such as that of the training set.
            Default: ``root``.
        **kwargs: Arguments of MMAction2's ``BaseActionDataset`` (``test_mode``, ...).

    Raises:
        FileNotFoundError: If there are no classes or no images.
        UserError: If a class is not in ``classes_from``.
    """

    def __init__(
        self, root: str, pipeline: list, classes_from: str | None = None, **kwargs: object
    ) -> None:
        self.root, self.classes_from = root, classes_from or root
        super().__init__(ann_file="", pipeline=pipeline, **kwargs)

    def load_data_list(self) -> list[dict]:
        """List the images, with the keys that a sampler would add."""
        numbers = {name: i for i, name in enumerate(list_folders(self.classes_from))}
        present = list_folders(self.root)
        unknown = [name for name in present if name not in numbers]
        if unknown:
            raise UserError(f"{self.root} has classes that {self.classes_from} lacks: {unknown}")
        names = [name for name in find_names(self.root, IMG_EXTENSIONS, "images") if "/" in name]
        classes = [name.partition("/")[0] for name in names]
        empty = sorted({*present}.difference(classes))
        if empty or not names:
            raise MissingFile(f"{self.root} has no images of the classes {empty}")
        one_frame = {"clip_len": 1, "num_clips": 1, "frame_interval": 1, "total_frames": 1}
        return [
            {"filename": os.path.join(self.root, name), "label": numbers[label], **one_frame}
            for name, label in zip(names, classes, strict=True)
        ]
