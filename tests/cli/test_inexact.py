"""The commands with --int8 and --static: near the exact answers."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.apis import Recognizer
from mmvidformer.models.fast import token_dropping
from mmvidformer.registry import MODELS


def features(main_of: Callable, command: list[str], out: Path, *options: str) -> np.ndarray:
    assert main_of("features")([*command, "--out", str(out), *options]) == 1  # one is broken
    rows = pq.read_table(out).to_pylist()
    return np.array([row["features"] for row in rows])


@pytest.mark.parametrize("tokens", [[], ["--tokens"]])
def test_features(main_of, model, folder, tmp_path, capsys, tokens) -> None:
    command = [*model, str(folder)]
    exact = features(main_of, command, tmp_path / "exact", *tokens)
    rounded = features(main_of, command, tmp_path / "int8", "--int8", *tokens)
    assert 0 < np.abs(rounded - exact).max() < 0.1 * np.abs(exact).max()
    with pytest.raises(FileExistsError, match="other settings: int8"):
        main_of("features")([*command, "--out", str(tmp_path / "exact"), "--int8", *tokens])


def test_labels(main_of, model, folder, tmp_path, capsys) -> None:
    command, rows = [*model, str(folder), "--out"], []
    for options in ([], ["--int8"]):
        out = tmp_path / f"labels{len(options)}"
        assert main_of("label")([*command, str(out), *options]) == 1
        rows.append(pq.read_table(out).to_pylist())
    for exact, rounded in zip(*rows, strict=True):
        assert rounded["score"] == pytest.approx(exact["score"], abs=0.02)


def test_demo(main_of, model, folder, capsys) -> None:
    assert main_of("demo")([*model, str(folder / "0"), "--window", "1", "--int8"]) == 0
    assert "optimized for inference, int8" in capsys.readouterr().err


def test_testing(test, model, tmp_path, caplog) -> None:
    test([*model, "--work-dir", str(tmp_path), "--int8"])
    saved = json.loads((tmp_path / "test_1x1_score_int8.json").read_text())
    assert saved["int8"] is True and "static" not in saved
    with pytest.raises(
        ValueError, match="--int8 and --static go neither with --amp nor with a sharded"
    ):
        test([*model, "--work-dir", str(tmp_path), "--int8", "--amp"])


JOINT = dict(
    _delete_=True,
    type="mmvidformer.ViViT",
    scheme="spacetime",
    arch=dict(embed_dims=16, depth=2, num_heads=2),
    img_size=32,
    clip_len=4,
    positions="space",
    stem=dict(tubelet=(1, 16, 16)),
)


@pytest.fixture(scope="module")
def joint(make_config, tmp_path_factory) -> tuple[str, str]:
    """A tiny model of joint attention, for videos whose frames are the same."""
    config = make_config("joint", model=dict(backbone=JOINT))
    path = tmp_path_factory.mktemp("weights") / "joint.pth"
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        torch.save({"state_dict": MODELS.build(Config.fromfile(config).model).state_dict()}, path)
    return str(config), str(path)


def test_still_parts(main_of, test, joint, model, folder, tmp_path, capsys) -> None:
    """The tolerance is as large as pixels may change: the first frame stands for all."""
    words = "still parts (up to 255 of 255) computed once"
    static, videos = ["--static", "255"], str(folder)
    assert main_of("demo")([*joint, str(folder / "0"), "--window", "1", *static]) == 0
    assert words in capsys.readouterr().err
    assert main_of("label")([*joint, videos, "--out", str(tmp_path / "labels"), *static]) == 1
    few = features(main_of, [*joint, videos], tmp_path / "few", *static)
    assert few.shape == (2, 16)
    test([*joint, "--work-dir", str(tmp_path / "test"), *static])
    tokens = features(main_of, [*joint, videos], tmp_path / "tokens", "--tokens", *static)
    of_frames = tokens.reshape(2, 4, 2 * 2 * 16)  # of one view
    assert (of_frames == of_frames[:, :1]).all() and of_frames.std() > 0
    with pytest.raises(
        ValueError, match="ViViT cannot compute still tubelets once: .*frames='pool'"
    ):
        main_of("demo")([*model, videos, *static])


def test_still_frames_are_computed_once(joint, folder) -> None:
    """The model gets one frame's tokens, and its scores are those of a frozen video."""
    still, exact = Recognizer(*joint, "cpu", static=4.0), Recognizer(*joint, "cpu")
    assert repr(still).endswith("still parts (up to 4 of 255) computed once")
    frame = np.random.default_rng(0).integers(0, 250, (1, 32, 32, 3), dtype=np.uint8)
    noise = np.random.default_rng(1).integers(0, 3, (24, 32, 32, 3), dtype=np.uint8)
    seen: list[int] = []
    block = still.fast_model.backbone.encoders[0].blocks[0]
    block.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[1]))
    scores = still(frame + noise).scores["class"]
    assert seen == [1 + 4]  # a class token, and the places of one frame
    assert 0 < np.abs(scores - exact(frame + noise).scores["class"]).max() < 0.1


def test_training_on_fewer_tokens(train, make_config, tmp_path, monkeypatch) -> None:
    """Of 6 steps, the first half."""
    draw, shares = token_dropping.draw_tokens, []

    def spy(backbone, clips, share):
        shares.append(share)
        return draw(backbone, clips, share)

    monkeypatch.setattr(token_dropping, "draw_tokens", spy)
    hook = dict(type="mmvidformer.AllTokensHook", last=0.5)
    backbone = dict(JOINT, token_keep=0.5)
    config = make_config("dropping", model=dict(backbone=backbone), custom_hooks=[hook])
    train([str(config), "--work-dir", str(tmp_path), "--seed", "0"])
    assert shares == [0.5] * 3
