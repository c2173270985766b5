"""The method that finetune chooses by itself."""

from pathlib import Path

import pytest

from mmvidformer import get_config
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.finetune import automatic
from mmvidformer.finetune.automatic import Pass, choose_method, measure_pass
from mmvidformer.finetune.settings import Recipe
from mmvidformer.tasks.table import find_task
from tests.tiny_configs import shrink

IMAGES, SCRATCH = "timesformer_b_sthv2", "vivit_fe_motion"  # configs by their start
CASES = {
    # config, --weights, training videos, seconds and moments of a pass, task, chosen, why
    "image": (IMAGES, None, 100, 1, 8, "classes", "temporal", "weights of an image model"),
    "large": (IMAGES, None, 2001, 1e-4, 8, "classes", "full", "2001 videos"),
    "slow": (IMAGES, None, 2001, 1, 8, "classes", "linear", "model would take about 25 hours"),
    "no_time": (IMAGES, None, 100, 1e-4, 1, "classes", "full", "100 videos"),
    "videos": (IMAGES, "FILE", 100, 1e-4, 8, "classes", "full", "100 videos"),
    "few": (SCRATCH, "FILE", 49, 1e-4, 8, "classes", "lora", "49 videos are few for all weights"),
    "enough": (SCRATCH, "FILE", 50, 1e-4, 8, "classes", "full", "50 videos"),
    "few_slow": (SCRATCH, "FILE", 20, 1e4, 8, "classes", "linear", "model would take about"),
    "few_films": (SCRATCH, "FILE", 20, 1e-4, 8, "segments", "full", "20 videos"),
    "few_random": (SCRATCH, None, 20, 1e-4, 8, "classes", "full", "from random weights"),
    "moments": (IMAGES, None, 100, 1e-4, 8, "moments", "full", "100 videos"),
    "scratch": (SCRATCH, None, 100, 10, 8, "classes", "full", "from random weights"),
}


@pytest.mark.parametrize("case", CASES)
def test_choice_by_weights_videos_and_time(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, weights, count, seconds, moments, task, method, reason = CASES[case]
    monkeypatch.setattr(automatic, "measure_pass", lambda cfg: Pass(seconds, moments))
    monkeypatch.setattr(automatic, "default_device", lambda: "cpu")
    lists = VideoLists(Path("/own"), ("a", "b"), dict(train=count, val=10, test=10), "\t")
    recipe = Recipe(task=task)
    chosen, line = choose_method(get_config(name), lists, recipe, find_task(task), weights)
    assert chosen == method
    assert line.startswith(f"--method {method}: {count} videos") and reason in line


def test_a_gpu_is_not_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(automatic, "measure_pass", lambda cfg: Pass(1, 8))
    monkeypatch.setattr(automatic, "default_device", lambda: "cuda")
    lists = VideoLists(Path("/own"), ("a", "b"), dict(train=3000, val=0, test=0), "\t")
    chosen, line = choose_method(get_config(IMAGES), lists, Recipe(), find_task("classes"), None)
    assert chosen == "full" and line.endswith("it takes about 38 hours on this GPU")


def test_a_pass_tells_the_moments_of_its_tokens() -> None:
    cfg = shrink(get_config(SCRATCH))
    measured = measure_pass(cfg)
    tubelet = cfg.model.backbone.stem.tubelet[0]
    assert measured.moments == cfg.model.backbone.clip_len // tubelet
    assert 0 < measured.seconds < 60
