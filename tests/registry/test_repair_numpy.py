"""The repair of MMAction2 for names that NumPy has removed, and for negative hues."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from mmvidformer.repairs import numpy_2

# Versions before 2.4 have some of the names that were removed.
without_names = pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy has some of the names"
)


def test_color_jitter_accepts_negative_hues() -> None:
    import mmaction.datasets.transforms  # noqa: F401
    from mmaction.registry import TRANSFORMS

    jitter = TRANSFORMS.build({"type": "ColorJitter"})
    red = np.full((2, 2, 3), (255, 0, 0), dtype=np.uint8)
    for offset in (-0.1, 0.1):
        jitter.brightness = jitter.contrast = jitter.saturation = (1, 1)
        jitter.hue = (offset, offset)
        out = jitter.transform({"imgs": [red]})["imgs"][0]
        np.testing.assert_array_equal(out, numpy_2.adjust_hue(red, offset))


@pytest.mark.parametrize(
    ("factor", "rgb"), [(0.0, (255, 0, 0)), (-30 / 255, (255, 0, 255)), (60 / 255, (0, 255, 0))]
)
def test_hue_rotates_both_ways(factor: float, rgb: tuple[int, int, int]) -> None:
    red = np.full((1, 1, 3), (255, 0, 0), dtype=np.uint8)
    assert tuple(numpy_2.adjust_hue(red, factor)[0, 0]) == rgb


def test_extract_frames_resizes(tiny_videos, tmp_path: Path) -> None:
    from mmaction.utils import frame_extract

    paths, frames = frame_extract(str(tiny_videos.root / "val_0.mp4"), 16, str(tmp_path))
    assert len(paths) == 24
    assert frames[0].shape == (16, 32, 3)


def test_recall_metrics_compute() -> None:
    from mmaction.evaluation import average_recall_at_avg_proposals
    from mmaction.evaluation.metrics import RetrievalRecall

    scores = torch.tensor([[0.1, 0.9, 0.0], [0.8, 0.1, 0.2]])
    recalls = RetrievalRecall.calculate(scores, [[1], [2]], topk=(1, 2), target_indices=True)
    assert [recall.item() for recall in recalls] == [50, 100]
    truth = {"a": np.array([[0.0, 1.0]])}
    proposals = {"a": np.array([[0.0, 1.0, 0.9]])}
    *_, per_video, area = average_recall_at_avg_proposals(truth, proposals, 1)
    assert per_video[-1] == 1
    assert area == pytest.approx(0.5)  # recall is 1 at the last of 100 points only


def test_ava_precision_without_values_is_nan() -> None:
    from mmaction.evaluation.functional.ava_evaluation.metrics import compute_average_precision

    assert np.isnan(compute_average_precision(None, None))


def test_pose_compact_crops_to_the_keypoints() -> None:
    import mmaction.datasets.transforms  # noqa: F401
    from mmaction.registry import TRANSFORMS

    compact = TRANSFORMS.build({"type": "PoseCompact", "padding": 0.0, "threshold": 1})
    keypoint = np.array([[[[10.0, 20.0], [30.0, 40.0]]]])
    assert compact({"img_shape": (64, 64), "keypoint": keypoint})["img_shape"] == (20, 20)


@without_names
def test_numpy_itself_is_not_changed() -> None:
    assert not any(hasattr(np, name) for name in numpy_2.NAMES)


@without_names
def test_all_modules_with_removed_names_are_repaired() -> None:
    root = Path(importlib.util.find_spec("mmaction").submodule_search_locations[0])
    used = {}
    for path in root.rglob("*.py"):
        names = set(re.findall(r"\bnp\.(\w+)", path.read_text(encoding="utf-8")))
        if ".mim" not in path.parts and (lost := {n for n in names if not hasattr(np, n)}):
            used[".".join(path.relative_to(root.parent).with_suffix("").parts)] = lost
    assert used.keys() == set(numpy_2.MODULES)
    assert set().union(*used.values()) == numpy_2.NAMES.keys()
