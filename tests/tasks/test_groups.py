"""Groups of videos, which are in one split."""

import pytest

from mmvidformer.data.importers import open_annotations
from mmvidformer.tasks.lists import split_annotations


@pytest.mark.parametrize("sizes", [[10, 4, 3, 2, 1], [30, 1, 1], [2, 2], [1] * 20, [40] * 8])
@pytest.mark.parametrize("seed", range(3))
def test_groups_are_drawn_together(sizes, seed, tmp_path) -> None:
    rows = [
        f"{person}_{n}.mp4,1,P{person}" for person, size in enumerate(sizes) for n in range(size)
    ]
    file = tmp_path / "all.csv"
    file.write_text("\n".join(["Video,level,Group", *rows]))
    lists = split_annotations(
        open_annotations(file), "number", tmp_path, 0.2, 0.2, seed, check=False
    )
    splits_of: dict[str, set[str]] = {}
    for split in ("train", "val", "test"):
        lines = (tmp_path / f"{split}.csv").read_text().split()
        assert lines[0] == "video,level"
        for line in lines[1:]:
            splits_of.setdefault(line.partition("_")[0], set()).add(split)
    assert len(splits_of) == len(sizes) and all(len(splits) == 1 for splits in splits_of.values())
    assert lists.counts["train"] >= sum(sizes) * 0.5 and lists.counts["val"] >= 1
    assert bool(lists.counts["test"]) == (len(sizes) > 2)


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ("a.mp4,1,,P1\na.mp4,1,,P2", "line 3: a.mp4 is in two groups"),
        (
            "a.mp4,1,train,P1\nb.mp4,1,Validation,P1",
            "line 3: group 'P1' is in split val, and in split train in",
        ),
        (
            "a.mp4,1,,P1\nb.mp4,1,test,P1",
            "line 3: group 'P1' is in split test, and in no split in line 2",
        ),
    ],
)
def test_a_group_in_two_splits_is_a_fault(rows, error, tmp_path) -> None:
    file = tmp_path / "all.csv"
    file.write_text(f"video,level,split,group\n{rows}\n")
    with pytest.raises(ValueError, match=error):
        split_annotations(open_annotations(file), "number", tmp_path, check=False)
