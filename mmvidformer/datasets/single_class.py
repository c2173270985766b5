"""Datasets of one class per clip: images in folders, and some classes of a list of videos."""

from mmaction.datasets import VideoDataset
from mmaction.datasets.base import BaseActionDataset
from mmengine.logging import MMLogger
from torchvision.datasets.folder import IMG_EXTENSIONS, find_classes, make_dataset

from mmvidformer.datasets.csv_rows import read_text
from mmvidformer.registry import DATASETS


@DATASETS.register_module()
class ImageFolderDataset(BaseActionDataset):
    """Images in ImageNet's layout, ``ROOT/CLASS/.../IMAGE``, to pretrain a backbone.

    Each image is a clip of one frame, which MMAction2's ``ImageDecode`` reads. Classes are the
    sorted folder names, as in torchvision's ``ImageFolder``.

    Args:
        root: Folder of the classes' folders.
        pipeline: Transforms, starting with ``ImageDecode``.
        classes_from: Folder whose subfolders define the classes. Default: ``root``. For validation
            sets, which may lack some classes of the training set.
        **kwargs: Arguments of MMAction2's ``BaseActionDataset`` (``test_mode``, ...).

    Raises:
        FileNotFoundError: If there are no classes or no images.
        ValueError: If a class is not in ``classes_from``.
    """

    def __init__(
        self, root: str, pipeline: list, classes_from: str | None = None, **kwargs: object
    ) -> None:
        self.root = root
        self.classes_from = classes_from or root
        super().__init__(ann_file="", pipeline=pipeline, **kwargs)

    def load_data_list(self) -> list[dict]:
        """List the images, with the keys that a sampler would add."""
        numbers = find_classes(self.classes_from)[1]
        present = find_classes(self.root)[0]
        unknown = sorted(set(present) - set(numbers))
        if unknown:
            raise ValueError(f"{self.root} has classes that {self.classes_from} lacks: {unknown}")
        classes = {name: numbers[name] for name in present}
        found = make_dataset(self.root, classes, extensions=IMG_EXTENSIONS)
        one_frame = {"clip_len": 1, "num_clips": 1, "frame_interval": 1, "total_frames": 1}
        return [{"filename": path, "label": label, **one_frame} for path, label in found]


@DATASETS.register_module()
class ClassSubsetDataset(VideoDataset):
    """A ``VideoDataset`` limited to the classes listed in a file, with new labels.

    HORST's early recognition uses 41 of Something-Something V2's 174 classes, with 56769 clips for
    training and 7503 for validation, after Wang et al. 2019. No source that we know of lists them,
    so that users have to provide the list. The numbers of classes and clips are logged.

    Class names in ``metainfo`` are those of the whole dataset.

    Args:
        class_file: A class per line: its number in the annotation file, or its name in
            ``metainfo``. The n-th class, from 0, gets the label n. Empty lines are ignored.
        **kwargs: Arguments of ``VideoDataset``.

    Raises:
        ValueError: If the file has no class, lists one twice, or lists one that ``metainfo`` or
            the annotation file lacks; names file and class.
    """

    def __init__(self, *args, class_file: str, **kwargs) -> None:
        self.class_file = class_file
        super().__init__(*args, **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the annotation file, keep the videos of the classes, and relabel them."""
        names = [*(self._metainfo.get("classes") or ())]
        labels: dict[int, int] = {}
        for line in filter(None, map(str.strip, read_text(self.class_file).splitlines())):
            if not line.isdigit() and line not in names:
                raise ValueError(
                    f"{self.class_file}: {line!r} is no number and no name in metainfo['classes']"
                )
            old = int(line) if line.isdigit() else names.index(line)
            if old in labels:
                raise ValueError(f"{self.class_file} lists the class {line!r} twice")
            labels[old] = len(labels)
        if not labels:
            raise ValueError(f"{self.class_file} lists no classes")
        videos = super().load_data_list()
        absent = set(labels) - {video["label"] for video in videos}
        if absent:
            raise ValueError(
                f"{self.ann_file} has no videos of the classes {sorted(absent)} of "
                f"{self.class_file}; do the numbers in both files mean the same?"
            )
        if len(names) > max(labels):
            self._metainfo["classes"] = [names[old] for old in labels]
        kept = [{**v, "label": labels[v["label"]]} for v in videos if v["label"] in labels]
        MMLogger.get_current_instance().info(
            f"{self.ann_file}: {len(kept)} clips of the {len(labels)} classes in {self.class_file}"
        )
        return kept
