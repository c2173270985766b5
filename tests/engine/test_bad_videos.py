"""The policy for bad videos in a run."""

import copy

import pytest
from mmengine.evaluator import Evaluator
from mmengine.registry import EVALUATOR

from mmvidformer import get_config, list_models
from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.engine.bad_videos import apply_policy
from mmvidformer.tasks.evaluator import BadVideoEvaluator
from tests.video.toys import Numbers

POLICY = dict(on_bad_video="resample", max_bad_share=0.05)
ACCURACY = dict(type="AccMetric")


@EVALUATOR.register_module()
class OwnEvaluator(Evaluator):
    """An evaluator of a user."""


def loader_of(dataset, workers=0):
    return dict(
        dataset=dataset,
        batch_size=4,
        num_workers=workers,
        collate_fn=dict(type="default_collate"),
        sampler=dict(type="mmvidformer.ResumableSampler", shuffle=False),
    )


@pytest.fixture
def run(toy):
    """Build a toy runner with a policy."""

    def build(dataset, policy=POLICY, workers=0, evaluator=ACCURACY, tested=None):
        runner = toy(
            train_dataloader=loader_of(dataset, workers),
            val_dataloader=loader_of(Numbers(4) if tested is None else tested),
            val_cfg=dict(),
            val_evaluator=copy.deepcopy(evaluator),
            cfg=dict(bad_videos=policy),
        )
        apply_policy(runner)
        return runner

    return build


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_replaces_bad_samples(run, workers):
    runner = run(Numbers(40, {7, 33}), workers=workers)
    runner.val_loop.run = lambda: None
    runner.train()
    seen = [x for batch in runner.model.seen for x in batch]
    assert len(seen) == 3 * 40 and not {7.0, 33.0} & set(seen)


def test_too_large_a_share_ends_the_run(run):
    with pytest.raises(RuntimeError, match=r"3 bad ones among .* of 40 .*max_bad_share=0\.05"):
        run(Numbers(40, {7, 8, 33})).train()


@pytest.mark.parametrize("policy", [None, {}, dict(on_bad_video="raise")])
def test_without_a_policy_bad_videos_raise(run, policy):
    runner = run(Numbers(40, {7}), policy)
    assert runner._val_evaluator == ACCURACY
    with pytest.raises(Exception, match=r"7\.mp4: is bad"):
        runner.train()


def test_a_safe_dataset_in_the_config_keeps_its_policy(run):
    given = dict(type="SafeDataset", dataset=None, max_bad_share=0.5)
    runner = run(given)
    assert runner._train_dataloader["dataset"] == given
    apply_policy(runner)
    assert type(runner._val_dataloader["dataset"]["dataset"]) is Numbers
    assert runner._val_evaluator["metrics"] == ACCURACY


@pytest.mark.parametrize(
    ("given", "metrics"),
    [
        (ACCURACY, ACCURACY),
        ([ACCURACY, ACCURACY], [ACCURACY, ACCURACY]),
        (dict(metrics=[ACCURACY]), [ACCURACY]),
        (dict(type="Evaluator", metrics=ACCURACY), ACCURACY),
        (dict(type="mmvidformer.BadVideoEvaluator", metrics=ACCURACY), ACCURACY),
    ],
)
def test_metrics_are_put_into_the_evaluator(run, given, metrics):
    runner = run(Numbers(4), evaluator=given)
    wrapper = dict(type="mmvidformer.BadVideoEvaluator", metrics=metrics)
    assert runner._val_evaluator == wrapper
    evaluator = runner.val_loop.evaluator
    assert type(evaluator) is BadVideoEvaluator
    assert isinstance(runner.val_dataloader.dataset, SafeDataset)


SAFE = dict(type="mmvidformer.SafeDataset", dataset=Numbers(4))


@pytest.mark.parametrize("dataset", [Numbers(4), SAFE], ids=["plain", "safe"])
def test_with_another_evaluator_the_videos_of_its_dataset_raise(run, dataset):
    """It would take the scores of other videos for theirs."""
    evaluator = dict(type="OwnEvaluator", metrics=ACCURACY)
    runner = run(Numbers(4), evaluator=evaluator, tested=dataset)
    assert type(runner.val_loop.evaluator) is OwnEvaluator
    assert runner.val_dataloader.dataset.on_bad_video == "raise"
    assert runner._train_dataloader["dataset"]["on_bad_video"] == "resample"


@pytest.mark.parametrize("name", list_models()[::12])
def test_shipped_configs_have_the_policy(name):
    cfg = get_config(name)
    assert cfg.bad_videos == POLICY and "bad_videos" not in cfg.default_hooks
    for split in ("train", "val", "test"):
        assert "SafeDataset" not in str(cfg[f"{split}_dataloader"])
