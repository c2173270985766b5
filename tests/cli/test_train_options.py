"""Options of training, and a causal transformer from training to stream."""

import json
import pickle

import pytest
import torch
from mmengine.config import Config

from mmvidformer.apis import Capture, Recognizer
from mmvidformer.config.shipped import config_folder
from mmvidformer.models.fast import onednn, training


@pytest.mark.slow
def test_a_compiled_run_ends_where_a_plain_one_does(train, make_config, weights, tmp_path):
    """With MMEngine's setting."""
    for name, extra in (("plain", {}), ("compiled", dict(compile=dict(backend="eager")))):
        config = make_config(name, train_cfg=dict(max_epochs=1), **extra)
        train([str(config), "--work-dir", str(tmp_path / name), "--seed", "0", "--no-validate"])
    plain, compiled = (weights(tmp_path / name / "epoch_1.pth") for name in ("plain", "compiled"))
    torch.testing.assert_close(compiled, plain, rtol=0, atol=1e-5)


def test_options_reach_the_config(train, make_config, tmp_path, monkeypatch):
    product, shapes = onednn._multiply, []

    def spy(*tensors):
        shapes.append(tensors[0].shape)
        return product(*tensors)

    monkeypatch.setattr(onednn, "_multiply", spy)
    monkeypatch.setattr(training, "mkl_is_slow", lambda: True)
    hooks = dict(fast_training=dict(type="mmvidformer.FastTrainingHook"))
    config = make_config("options", train_cfg=dict(max_epochs=1), default_hooks=hooks)
    options = ["--no-validate", "--auto-scale-lr", "--seed", "0", "--deterministic"]
    options += [
        "--cfg-options",
        "optim_wrapper.optimizer.lr=0.25",
        "auto_scale_lr.base_batch_size=8",
    ]
    train([str(config), "--work-dir", str(tmp_path), *options])
    used = torch.load(tmp_path / "epoch_1.pth", weights_only=True)
    # Half the base batch: half the rate.
    assert used["optimizer"]["param_groups"][0]["initial_lr"] == 0.125
    cfg = Config.fromfile(tmp_path / config.name)
    assert cfg.randomness == dict(seed=0, deterministic=True)
    assert not list(tmp_path.glob("best_*"))
    assert shapes or not onednn.onednn_types()  # linear layers train in oneDNN


def test_auto_scale_lr_needs_a_base(train, make_config, tmp_path):
    config = make_config("unscaled", auto_scale_lr=dict(_delete_=True, enable=False))
    with pytest.raises(ValueError, match="base_batch_size"):
        train([str(config), "--work-dir", str(tmp_path), "--auto-scale-lr"])


def test_sharding_needs_a_launcher(train, make_config, tmp_path):
    with pytest.raises(ValueError, match="--procs"):
        train([str(make_config("alone")), "--work-dir", str(tmp_path), "--strategy", "fsdp"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "metric"), [("early", "acc/top1"), ("anticipation", "action/top1_1.00s")]
)
def test_causal_transformers_are_trained_tested_and_streamed(
    kind, metric, train, test, prediction_data, tmp_path, monkeypatch
):
    monkeypatch.chdir(prediction_data)
    name = f"causal_transformer_{kind}_motion"
    path = str(config_folder() / f"{name}.py")
    options = [f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test")]
    options += [f"{split}_dataloader.timeout=0" for split in ("train", "val", "test")]
    options += ["train_cfg.max_epochs=2", "train_cfg.val_interval=1"]
    train([path, "--work-dir", str(tmp_path), "--seed", "0", "--cfg-options", *options])
    (log,) = tmp_path.glob("*/vis_data/scalars.json")
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [0 <= row[metric] <= 1 for row in rows if metric in row] == [True, True]
    weights = str(tmp_path / "epoch_2.pth")
    dump = tmp_path / "scores.pkl"
    test([path, weights, "--work-dir", str(tmp_path / "test"), "--dump", str(dump)]
         + ["--cfg-options", *options[:6]])  # fmt: skip
    scores = [row["pred_score"] for row in pickle.loads(dump.read_bytes())]
    data = "motion_phases" if kind == "early" else "motion_sequences"
    video = sorted((prediction_data / "data" / data / "test").glob("*.mp4"))[0]
    with Capture(video) as source:
        *_, last = Recognizer(name, weights).frame_by_frame(source)
    if kind == "early":  # the streamed video is the one that was tested
        stream = torch.from_numpy(last.predictions[0].scores["class"])
        assert min((score - stream).abs().max() for score in scores) < 1e-3
    else:
        assert last.predictions[0].scores.keys() == scores[0].keys() == {"action", "verb", "noun"}


def test_a_finished_run_trains_longer_with_a_longer_schedule(
    train, make_config, weights, tmp_path, capsys
) -> None:
    """Its rates are those of a run of four epochs, and a line says what differs."""
    cosine = dict(type="CosineAnnealingLR", T_max=2, end=2, by_epoch=True)
    config = make_config("long", train_cfg=dict(max_epochs=2), param_scheduler=[cosine])
    options = [str(config), "--seed", "0", "--no-validate", "--work-dir"]
    train([*options, str(tmp_path / "cut")])
    train([*options, str(tmp_path / "whole"), "--epochs", "4"])
    capsys.readouterr()
    train([*options, str(tmp_path / "cut"), "--epochs", "4", "--resume"])
    changes = "train_cfg.max_epochs 2 -> 4; param_scheduler.0.T_max 2 -> 4; param_scheduler.0.end"
    assert f"differs from that of {tmp_path}/cut/epoch_2.pth: {changes}" in capsys.readouterr().out
    rates = {}
    for name in ("cut", "whole"):
        content = torch.load(tmp_path / name / "epoch_4.pth", weights_only=True)
        rates[name] = content["param_schedulers"][0]["_last_value"]
    assert rates["cut"] == pytest.approx(rates["whole"])
    train([*options, str(tmp_path / "cut"), "--resume"])  # with the two epochs of the config
    assert "steps are done: nothing is left to train; --epochs N" in "".join(capsys.readouterr())
