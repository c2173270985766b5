"""Training, resuming and testing through the command-line tools, in one process."""

import json
import multiprocessing
import os
import pickle
import runpy
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.evaluation import AccMetric
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.hooks import Hook
from mmengine.registry import init_default_scope

from mmvidformer.cli import testing
from mmvidformer.cli.testing import merge_options
from mmvidformer.config import load_config
from mmvidformer.engine.pipelines import set_views
from mmvidformer.engine.run_options import TestOptions
from mmvidformer.models.recognizers import MultiViewRecognizer
from mmvidformer.tasks.evaluator import BadVideoEvaluator
from mmvidformer.tasks.frames_metric import FramesMetric
from mmvidformer.tasks.metrics import BoxesMetric, NumberMetric, SegmentsMetric
from mmvidformer.tasks.multi_task import AnticipationMetric
from mmvidformer.tasks.shares import is_share


def run_script(log: Path, words: list[str]) -> None:
    """Run a script with its arguments in a forked process, and write what it prints."""
    file = os.open(log, os.O_CREAT | os.O_WRONLY)
    os.dup2(file, 1), os.dup2(file, 2)
    sys.path.insert(0, str(Path(__file__).parent))  # for the hook of a config
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


@pytest.fixture(scope="module")
def trained(make_config, train, tools, tmp_path_factory):
    """A run of 3 epochs of 2 iterations, cut off in the third epoch and resumed."""
    config = make_config("resumed")
    work_dir = tmp_path_factory.mktemp("resumed")
    cut = make_config(
        "cut",
        custom_imports=dict(imports=["mmvidformer.registry", "cut_power"]),
        custom_hooks=[dict(type="mmvidformer.CutPower", at=5)],
    )
    options = ["--work-dir", str(work_dir), "--seed", "0"]
    log = work_dir / "printed.txt"
    words = [str(tools / "train.py"), str(cut), *options]
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=run_script, args=(log, words))
    process.start()
    process.join(600)
    assert process.exitcode == -signal.SIGKILL, log.read_text()
    assert (work_dir / "epoch_2.pth").exists() and not (work_dir / "epoch_3.pth").exists()

    train([str(config), "--resume", *options])
    return config, work_dir


def test_killed_training_ends_where_an_undisturbed_one_does(
    trained, train, make_config, weights, tmp_path
):
    resumed = torch.load(trained[1] / "epoch_3.pth", weights_only=True)
    assert (resumed["meta"]["epoch"], resumed["meta"]["iter"]) == (3, 6)

    names = ["red", "green", "blue"]
    config = make_config("undisturbed", class_names=names)
    train([str(config), "--work-dir", str(tmp_path), "--seed", "0"])
    undisturbed = weights(tmp_path / "epoch_3.pth")
    meta = torch.load(tmp_path / "epoch_3.pth", weights_only=True)["meta"]
    assert meta["dataset_meta"]["classes"] == names
    torch.testing.assert_close(resumed["state_dict"], undisturbed, rtol=0, atol=1e-6)
    moved = weights(trained[1] / "epoch_2.pth")
    assert max((moved[k] - undisturbed[k]).abs().max() for k in moved) > 1e-3


def test_testing_repeats_the_validation_figure(trained, test, tmp_path, capsys):
    config, work_dir = trained
    scalars = [
        json.loads(line)
        for path in sorted(work_dir.glob("*/vis_data/scalars.json"))
        for line in path.read_text().splitlines()
    ]
    validated = [line for line in scalars if "acc/top1" in line][-1]
    assert validated["step"] == 3

    checkpoint = work_dir / "epoch_3.pth"
    test([str(config), str(checkpoint), "--work-dir", str(tmp_path)])
    saved = json.loads((tmp_path / "test_1x1_score.json").read_text())
    for name in ("acc/top1", "acc/top5", "acc/mean1"):
        assert saved["metrics"][name] == validated[name]
    assert saved["checkpoint"] == str(checkpoint)
    assert (saved["views"], saved["fuse"]) == ("1x1", "score")
    printed = capsys.readouterr().out
    assert f"top-1: {100 * validated['acc/top1']:.2f}%" in printed
    assert f"mean class accuracy: {100 * validated['acc/mean1']:.2f}%" in printed
    assert "top-5" not in printed and validated["acc/top5"] == 1  # of three classes


@pytest.mark.parametrize("fuse", ["score", "prob"])
def test_views_and_fusion_are_what_was_asked(trained, test, weights, tmp_path, fuse):
    from mmaction.registry import DATASETS, MODELS

    config, work_dir = trained
    checkpoint, dump = work_dir / "epoch_3.pth", tmp_path / "scores.pkl"
    test(
        [str(config), str(checkpoint), "--work-dir", str(tmp_path), "--dump", str(dump)]
        + ["--views", "2x3", "--fuse", fuse]
    )
    assert json.loads((tmp_path / f"test_2x3_{fuse}.json").read_text())["views"] == "2x3"
    dumped = pickle.loads(dump.read_bytes())
    assert len(dumped) == 7

    init_default_scope("mmaction")
    cfg = Config.fromfile(config)
    set_views(cfg, 2, 3)
    cfg.model.cls_head.average_clips = None
    model = MODELS.build(cfg.model).eval()
    model.load_state_dict(weights(checkpoint))
    dataset = DATASETS.build(cfg.test_dataloader.dataset)
    for number, result in enumerate(dumped):
        sample = dataset[number]
        assert sample["inputs"].shape == (6, 3, 4, 32, 32)
        with torch.no_grad():
            logits = model.test_step(pseudo_collate([sample]))[0].pred_score
        assert logits.std(dim=0).max() > 1e-4
        by_hand = (logits.softmax(-1) if fuse == "prob" else logits).mean(dim=0)
        torch.testing.assert_close(result["pred_score"], by_hand, rtol=0, atol=1e-6)


def test_fusion_has_no_effect_on_a_head_that_merges_parts():
    args = TestOptions(config="thumos", fuse="prob")
    with pytest.raises(ValueError, match="--fuse has no effect on the mmvidformer.SegmentsHead"):
        merge_options(load_config("features_thumos14"), args)


def test_limited_views_give_the_same_scores(trained, test, tmp_path, monkeypatch):
    from mmvidformer.models import ViViT

    seen: list[int] = []
    forward = ViViT.forward
    monkeypatch.setattr(ViViT, "forward", lambda s, x: seen.append(len(x)) or forward(s, x))
    config, work_dir = trained
    scores = {}
    for name, videos, limit in (("all", 1, 18), ("one_video", 1, 8), ("two_videos", 2, 4)):
        seen.clear()
        dump = tmp_path / f"{name}.pkl"
        settings = [f"test_dataloader.batch_size={videos}"]
        settings += ["model.type=mmvidformer.MultiViewRecognizer"]
        settings += [f"model.test_cfg.max_testing_views={limit}"]
        test(
            [str(config), str(work_dir / "epoch_3.pth"), "--work-dir", str(tmp_path / name)]
            + ["--views", "6x3", "--dump", str(dump), "--cfg-options", *settings]
        )
        assert max(seen) == limit and sum(seen) == 7 * 18
        scores[name] = torch.stack([one["pred_score"] for one in pickle.loads(dump.read_bytes())])
    for name in ("one_video", "two_videos"):
        torch.testing.assert_close(scores[name], scores["all"], rtol=0, atol=1e-6)


def test_aligned_clips_are_computed_once(trained, load, tmp_path, monkeypatch):
    from mmvidformer.models.fast import shared_frames

    tool, encoded, scores = load("test"), [], {}
    encode = shared_frames.encode_frames

    def count(backbone: torch.nn.Module, clips: torch.Tensor) -> torch.Tensor:
        encoded.append(len(clips))
        return encode(backbone, clips)

    monkeypatch.setattr(shared_frames, "encode_frames", count)
    config, work_dir = trained
    for name, options in {"aligned": ["--align"], "apart": ["--align"], "as is": []}.items():
        if name == "apart":
            split_stages = "mmvidformer.models.fast.shared_frames.split_stages"
            monkeypatch.setattr(split_stages, lambda model: None)
        dump = tmp_path / f"{name}.pkl"
        options += ["--views", "6x3", "--dump", str(dump), "--work-dir", str(tmp_path / name)]
        assert tool.main([str(config), str(work_dir / "epoch_3.pth"), *options]) is None
        scores[name] = torch.stack([one["pred_score"] for one in pickle.loads(dump.read_bytes())])
        aligned = "_aligned" * (name != "as is")
        assert (tmp_path / name / f"test_6x3_score{aligned}.json").is_file()
    torch.testing.assert_close(scores["aligned"], scores["apart"], rtol=0, atol=1e-5)
    assert (scores["aligned"] - scores["as is"]).abs().max() > 1e-4
    # Of 2 tubelets in 18 views, since clips start at 0, 0, 4, 8, 12 and 16. 7 videos, one run.
    assert encoded == [3 * 6] * 7


def test_a_limit_of_views_allows_validation_in_batches(trained, train, make_config, tmp_path):
    """MMAction2's recogniser fails in the first validation of such a config."""
    changes = dict(
        train_cfg=dict(max_epochs=1),
        val_dataloader=dict(batch_size=4),
        model=dict(type="mmvidformer.MultiViewRecognizer", test_cfg=dict(max_testing_views=3)),
    )
    train([str(make_config("limited", **changes)), "--work-dir", str(tmp_path), "--seed", "0"])
    assert list(tmp_path.glob("best_*"))


def test_a_config_in_float16_says_what_a_cpu_can(train, make_config, tmp_path, monkeypatch):
    config = str(make_config("half", optim_wrapper=dict(type="AmpOptimWrapper")))
    monkeypatch.setattr("mmvidformer.engine.optim.precision.get_device", lambda: "cpu")
    with pytest.raises(ValueError, match="AmpOptimWrapper needs a GPU; on a CPU, add --amp bf16"):
        train([config, "--work-dir", str(tmp_path)])


def test_amp_on_cpu_is_bfloat16(train, make_config, weights, tmp_path):
    config = make_config("amp", train_cfg=dict(max_epochs=1))
    for name, extra in (("full", []), ("amp", ["--amp"])):
        train([str(config), "--work-dir", str(tmp_path / name), "--seed", "0", *extra])
    full, amp = (weights(tmp_path / name / "epoch_1.pth") for name in ("full", "amp"))
    error = max((full[name] - amp[name]).abs().max().item() for name in full)
    assert 1e-6 < error < 1e-2


def test_testing_in_bfloat16_gives_float32_scores_near_the_full_ones(trained, test, tmp_path):
    config, work_dir = trained
    scores = []
    for name, extra in (("full", []), ("amp", ["--amp"])):
        dump = tmp_path / f"{name}.pkl"
        test(
            [str(config), str(work_dir / "epoch_3.pth"), "--work-dir", str(tmp_path / name)]
            + ["--dump", str(dump), *extra]
        )
        scores.append(torch.stack([row["pred_score"] for row in pickle.loads(dump.read_bytes())]))
    assert scores[1].dtype == torch.float32
    assert 0 < (scores[0] - scores[1]).abs().max() < 0.02 * scores[0].abs().max()


@pytest.mark.parametrize("changes", [{}, dict(custom_hooks=[dict(type="EMAHook")])])
def test_testing_is_optimized_and_leaves_the_model_as_it_was(
    trained, load, make_config, weights, tmp_path, monkeypatch, changes
):
    tool, checkpoint = load("test"), trained[1] / "epoch_3.pth"
    runners, tested, scores = [], [], {}
    monkeypatch.setattr(testing, "report", lambda metrics, runner, args: runners.append(runner))
    step = MultiViewRecognizer.test_step
    spy = lambda model, data: tested.append(model) or step(model, data)  # noqa: E731
    monkeypatch.setattr(MultiViewRecognizer, "test_step", spy)
    for name, extra in (("fast", []), ("amp", ["--amp"]), ("plain", [])):
        if name == "plain":
            monkeypatch.setattr(testing, "OptimizeHook", lambda **unused: Hook())
        config = make_config(name, **changes)
        dump = ["--dump", str(tmp_path / f"{name}.pkl")]
        tool.main([str(config), str(checkpoint), "--work-dir", str(tmp_path / name), *dump, *extra])
        scores[name] = [row["pred_score"] for row in pickle.loads(Path(dump[1]).read_bytes())]
        (log,) = (tmp_path / name).glob("*/*.log")
        assert ("optimized for inference" in log.read_text()) == (name == "fast")
        assert (tested[-1] is runners[-1].model) == (name != "fast")
    torch.testing.assert_close(scores["fast"], scores["plain"], rtol=0, atol=1e-5)
    model = runners[0].model.train()
    torch.testing.assert_close(dict(model.state_dict()), dict(weights(checkpoint)), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("acc/top1", 0.5, "50.00%"),
        ("acc/top5", 0, "0.00%"),
        ("acc/mean1", np.float64(0.123), "12.30%"),
        ("acc/mean_average_precision", 1.0, "100.00%"),
        ("verb/recall5_1.00s", 0.25, "25.00%"),
        ("noun/top1", 1, "100.00%"),
        ("frames/f1@10", 0.25, "25.00%"),
        ("segments/mAP@50", 0.25, "25.00%"),
        ("boxes/overall", np.float32(0.25), "25.00%"),  # a prefix of the user's config
        ("boxes/person_movement", np.nan, "nan%"),
        ("number/r2", 0.5, "0.5"),
        ("number/r2", -1.5, "-1.5"),
        ("number/mae", np.float32(0.123456), "0.1235"),
        ("number/mae_top_speed", 0.5, "0.5"),
        ("number/left_out", 1, "1"),
        ("bad_videos", 1, "1"),
        ("segments", np.int64(13139), "13139"),
        ("top", 0.5, "0.5"),  # of a metric of a user
        ("acc_of_loss", 0.5, "0.5"),
    ],
)
def test_only_what_metrics_declare_is_printed_as_percentages(load, name, value, text) -> None:
    files = dict(exclude_file=None, label_file="a.pbtxt")
    evaluator = BadVideoEvaluator(
        [
            AccMetric(),
            NumberMetric(),
            FramesMetric(),
            SegmentsMetric(),
            BoxesMetric("a.csv", **files, prefix="boxes"),
            AnticipationMetric(),
        ]
    )
    share = is_share(name, evaluator.metrics)
    assert testing.in_words(value, share) == text
