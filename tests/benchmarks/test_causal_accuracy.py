"""Rows of causal models beside HORST: accuracy at the end, and in HORST's time."""

import pytest

from benchmarks.causal_accuracy import TASKS, accuracy_within, rows_of
from lab.synthetic import PRESETS
from mmvidformer.config import load_config


@pytest.mark.parametrize(("seconds", "accuracy"), [(0.5, 0.0), (1.0, 0.2), (2.5, 0.9), (9, 0.8)])
def test_the_last_epoch_within_a_time_counts(seconds: float, accuracy: float) -> None:
    assert accuracy_within([(1.0, 0.2), (2.0, 0.9), (3.0, 0.8)], seconds) == accuracy


def test_rows_compare_the_same_seeds() -> None:
    horst = [[(4.0, 1.0)], [(2.0, 0.9)]]
    other = [[(3.0, 0.5), (6.0, 0.9)], [(2.0, 0.7), (4.0, 1.0)]]
    first, second = (
        row.strip("| ").split(" | ") for row in rows_of({"horst": horst, "other": other})
    )
    assert first == ["horst", "95.0 ± 63.5", "3 ± 13", "95.0 ± 63.5"]
    assert second[0] == "other" and second[1].startswith("95.0") and second[3].startswith("60.0")


@pytest.mark.parametrize("task", TASKS)
def test_configs_of_a_task_read_the_same_clips(task: str) -> None:
    preset, configs = TASKS[task]
    pipelines, classes = [], len(PRESETS[preset].class_names)
    for config in configs:
        cfg = load_config(config)
        assert cfg.model.cls_head.num_classes == classes
        pipelines.append(cfg.train_dataloader.dataset.pipeline)
    assert all(pipeline == pipelines[0] for pipeline in pipelines)
