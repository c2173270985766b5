"""Annotations that lead out of the data's folder."""

from pathlib import Path

import pytest
from mmengine.dataset import ConcatDataset, RepeatDataset
from mmengine.registry import DefaultScope

from mmvidformer.engine.data_root import check_inside
from mmvidformer.registry import DATASETS


def dataset(tmp_path: Path, name: str, prefix: str):
    (tmp_path / "list.txt").write_text(f"in/a.mp4 0\n{name} 1\n")
    with DefaultScope.overwrite_default_scope("mmaction"):
        return DATASETS.build(
            dict(
                type="VideoDataset",
                ann_file=str(tmp_path / "list.txt"),
                data_prefix=dict(video=prefix and str(tmp_path / prefix)),
                pipeline=[],
            )
        )


@pytest.mark.parametrize("name", ["../b.mp4", "/etc/passwd", "in/../../b.mp4", "../data_2/b.mp4"])
def test_paths_that_lead_out_are_refused(name: str, tmp_path: Path) -> None:
    one = dataset(tmp_path, name, "data")
    for wrapped in (one, RepeatDataset(one, 2), ConcatDataset([one, one])):
        with pytest.raises(ValueError, match=r"list\.txt, entry 2: .* is outside .*/data, the"):
            check_inside(wrapped)


@pytest.mark.parametrize(
    "name, prefix", [("in/../b.mp4", "data"), ("/a/b.mp4", ""), ("../b.mp4", "")]
)
def test_other_paths_are_taken(name: str, prefix: str, tmp_path: Path) -> None:
    check_inside(dataset(tmp_path, name, prefix))


def test_paths_from_columns_of_a_table_are_looked_at_too(tmp_path: Path) -> None:
    columns = "narration_id,participant_id,video_id,start_frame,stop_frame,noun_class,verb_class"
    (tmp_path / "a.csv").write_text(f"{columns}\nn,P01,../../../../b,1,2,0,0\n")
    with DefaultScope.overwrite_default_scope("mmaction"):
        built = DATASETS.build(
            dict(
                type="mmvidformer.EpicKitchensDataset",
                ann_file=str(tmp_path / "a.csv"),
                data_prefix=dict(video=str(tmp_path / "data")),
                pipeline=[],
            )
        )
    with pytest.raises(ValueError, match=r"a\.csv, line 2"):
        check_inside(built)
