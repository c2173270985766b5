import csv
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import DefaultScope

from lab.synthetic.render import DIRECTIONS, Look
from lab.synthetic.sequences import (
    ACTIONS,
    NOUNS,
    VERBS,
    SequencesSpec,
    next_verb,
    write_script,
)
from mmvidformer.registry import DATASETS

SMALL = SequencesSpec(train=3, val=1, test=1, actions=6)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sequences")
    assert SMALL.write(root)
    return root


def read(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_scripts_follow_the_grammar() -> None:
    """Frequencies in 20000 actions are within 4 standard deviations of the grammar's."""
    script = write_script(20000, 0.8, np.random.default_rng(0))
    turned = up = 0
    for (verb, noun), (after, _) in zip(script, script[1:], strict=False):
        clockwise = noun in (NOUNS.index("circle"), NOUNS.index("square"))
        turned += after == (verb + clockwise) % 4
        up += after == (verb + 2) % 4
    assert abs(turned / 20000 - 0.8) < 4 * 0.4 / 20000**0.5
    assert abs(up / 20000 - 0.2 / 3) < 4 * 0.25 / 20000**0.5
    nouns = np.array([noun for _, noun in script])
    gone = np.diff(nouns) % 4
    assert set(gone) == {1, 2}
    assert abs((gone[1:] == gone[:-1]).mean() - 0.8) < 4 * 0.4 / 20000**0.5
    # The last noun alone leaves two candidates, equally likely.
    assert abs((gone == 1).mean() - 0.5) < 0.05
    counts = np.array(list(Counter(script).values()))
    assert len(counts) == 16 and abs(counts / 20000 - 1 / 16).max() < 0.01


def test_verbs_turn_clockwise_or_stay() -> None:
    assert VERBS == ("right", "down", "left", "up")
    assert [next_verb((0, noun)) for noun in range(4)] == [1, 1, 0, 0]
    assert next_verb((3, 0)) == 0


def test_long_videos_have_valid_timestamps(tmp_path: Path) -> None:
    SequencesSpec(train=1, val=0, test=0, actions=60).annotate(tmp_path)
    assert read(tmp_path / "train.csv")[-1]["stop_timestamp"].startswith("00:01:")


def test_segments_cover_the_video(made: Path) -> None:
    for video in SMALL.clips("train"):
        rows = [row for row in read(made / "train.csv") if row["video_id"] == SMALL.name(video)]
        actions, starts, _ = SMALL.script(video)
        assert [(int(r["verb_class"]), int(r["noun_class"])) for r in rows] == actions
        assert [int(row["start_frame"]) - 1 for row in rows] == starts[:-1]
        assert [int(row["stop_frame"]) for row in rows] == starts[1:]
        for row, start in zip(rows, starts, strict=False):
            hours, minutes, seconds = map(float, row["start_timestamp"].split(":"))
            assert (hours * 60 + minutes) * 60 + seconds == start / 8
            assert (VERBS[int(row["verb_class"])], NOUNS[int(row["noun_class"])]) == (
                row["verb"], row["noun"],
            )  # fmt: skip
        assert len(SMALL.draw(video)) == starts[-1]
        assert set(np.diff(starts)) <= {8, 12, 16}
    pairs = [(int(row["verb"]), int(row["noun"])) for row in read(made / "actions.csv")]
    assert pairs == list(ACTIONS)


def test_segments_show_their_verb_and_noun() -> None:
    """The pixels give the shift of the object, and its area, which differs for three nouns."""
    spec = SequencesSpec(train=2, look=Look(speed=4.0, texture=0.0))
    areas = {noun: [] for noun in range(4)}
    for video in spec.clips("train"):
        actions, starts, _ = spec.script(video)
        frames = spec.draw(video).astype(int)
        for (verb, noun), start in zip(actions, starts, strict=False):
            first, second = frames[start : start + 2]
            wanted = {d: np.roll(first, tuple(np.array(DIRECTIONS[d][::-1]) * 4), (0, 1))
                      for d in VERBS}  # fmt: skip
            errors = {d: np.abs(frame - second).sum() for d, frame in wanted.items()}
            assert min(errors, key=errors.get) == VERBS[verb]
            colors, counts = np.unique(first.reshape(-1, 3), axis=0, return_counts=True)
            away = np.abs(first - colors[counts.argmax()]).sum(-1)  # 0 on the background
            areas[noun].append((away / away.max()).mean())  # edge pixels count in part
    # Area and half a pixel around it, by r = 12.8: circle, square, triangle, star.
    for noun, (area, outline) in enumerate(((3.14, 6.28), (2, 5.66), (1.3, 5.2), (1.32, 6.89))):
        expected = (area * 12.8**2 + outline * 12.8 / 2) / 64**2
        assert areas[noun]
        np.testing.assert_allclose(areas[noun], expected, atol=0.005)


@pytest.fixture(scope="module")
def base() -> Config:
    root = Path(__file__).parents[3]
    return Config.fromfile(root / "configs" / "_base_" / "datasets" / "motion_anticipation.py")


def test_only_frames_before_the_action_are_observed(made: Path, base: Config) -> None:
    """The shipped config reads 14 frames, 0.25 s apart, the last one 3 frames before the action."""
    config = dict(base.test_dataloader.dataset)
    config.update(ann_file=str(made / "test.csv"), action_file=str(made / "actions.csv"),
                  data_prefix={"video": str(made / "test")})  # fmt: skip
    with DefaultScope.overwrite_default_scope("mmaction"):
        dataset = DATASETS.build(config)
        (video,) = SMALL.clips("test")
        actions, starts, _ = SMALL.script(video)
        drawn = SMALL.draw(video).astype(int)
        names = [d["narration_id"] for d in dataset.metainfo["discarded"]]
        assert names == [f"{SMALL.name(video)}_0"]
        assert len(dataset) == 5
        for i, item in enumerate((dataset[j] for j in range(5)), start=1):
            verb, noun = actions[i]
            label = item["data_samples"].gt_label.tolist()
            assert label == [verb, noun, ACTIONS.index((verb, noun))]
            clip = item["inputs"][0].permute(1, 2, 3, 0).numpy().astype(int)  # (T, H, W, C)
            assert len(clip) == 14
            for shown, before in zip(clip[::-1], range(3, 99, 2), strict=False):
                if starts[i] - before >= 0:
                    frame = drawn[starts[i] - before].astype(np.float32)
                    assert np.abs(shown - cv2.resize(frame, (32, 32))).mean() < 8


def test_same_spec_gives_the_same_files_and_is_written_once(made: Path, tmp_path: Path) -> None:
    assert not SMALL.write(made)
    assert SMALL.write(tmp_path, workers=2)
    for path in sorted(made.rglob("*.*")):
        assert path.read_bytes() == (tmp_path / path.relative_to(made)).read_bytes()
    ids = [SMALL.name(video) for s in ("train", "val", "test") for video in SMALL.clips(s)]
    assert len(set(ids)) == len(ids) == 5


def test_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="multiple of 4, got 6"):
        SequencesSpec(fps=6)
