"""Settings and weights that do not fit are found before the first step."""

import re
from pathlib import Path

import pytest
import torch
from mmvidformer.engine.checkpointing.shards import mark_complete
from safetensors.torch import save_file

from mmvidformer.engine.preflight import check
from tests.engine.preflight.setups import DATASET, build, config, error, warning

V2 = "torchvision.transforms.v2"


def on_device(kind: str, **kwargs: object) -> dict:
    """A data preprocessor with one augmentation."""
    return dict(type="mmvidformer.VideoDataPreprocessor", augment=[dict(type=kind, **kwargs)])


SETTINGS = {
    "no_file": ({f"{DATASET}.ann_file": "gone.txt"}, "VideoDataset: gone.txt: No such file"),
    "prefix": ({f"{DATASET}.data_prefix": "videos"}, r"data_prefix must be a dict .*got 'videos'"),
    "type": (
        {f"{DATASET}.type": "VideoDatset"},
        r"VideoDatset is not in the mmaction::dataset registry\.$",
    ),
    "argument": (
        {f"{DATASET}.type": "mmvidformer.EpicKitchensDataset", f"{DATASET}.lables": 3},
        r"EpicKitchensDataset: .*unexpected keyword argument 'lables'",
    ),
    "transform": (
        {f"{DATASET}.pipeline.1.type": "SampleFrame"},
        "VideoDataset: SampleFrame is not in the .*transform registry",
    ),
    "no_dataset": ({"val_dataloader": dict(batch_size=1)}, "val_dataloader has no dataset"),
    "no_frames": ({f"{DATASET}.pipeline.1.clip_len": 0}, r"must be a multiple of \[2\], got \[0\]"),
    "text_frames": ({f"{DATASET}.pipeline.1.clip_len": "4"}, "VideoDataset: .*'str' and 'int'"),
    "tubelet": (
        {f"{DATASET}.pipeline.1.clip_len": 5},
        r"clip_len of clips must be a multiple of \[2\], got \[5\]",
    ),
    "patch": (
        {f"{DATASET}.pipeline.2.crop_size": 40},
        r"height and width of clips must be a multiple of \[16, 16\], got \[40, 40\]",
    ),
    "crop_on_the_device": (
        {"model.data_preprocessor": on_device(f"{V2}.RandomCrop", size=40)},
        r"height and width of clips must be a multiple of \[16, 16\], got \[40, 40\]",
    ),
    "augmentation": (
        {"model.data_preprocessor": on_device("Flip")},
        r"augmentations must be transforms of torchvision.*, got Flip$",
    ),
    "model": ({"model.backbone.tubelt": 2}, "unexpected keyword argument 'tubelt'"),
    "no_checkpoint": ({"load_from": "gone.pth"}, r"there is no checkpoint gone\.pth"),
    "config": ({"load_from": "config.py"}, r"config\.py is a config, not a checkpoint"),
    "folder": ({"load_from": "."}, r"\. has no complete\.json: not a sharded checkpoint, or an"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_setting_is_named(tmp_path, name):
    changes, message = SETTINGS[name]
    assert re.search(message, error(config(tmp_path, **changes)))


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("pipeline.1.clip_len", 8, r"clip_len of clips is \[8\], model.backbone is made for \[4\]"),
        ("pipeline.2.crop_size", (64, 48), r"is \[48, 64\], model.backbone is made for \[32, 32\]"),
    ],
)
def test_clips_of_another_size_are_a_warning(tmp_path, setting, value, message):
    """The docstring of the backbone promises that they work."""
    cfg = config(tmp_path, **{f"{DATASET}.{setting}": value})
    cfg.val_dataloader = cfg.train_dataloader
    assert re.search(message, warning(cfg))
    model = build(cfg)
    assert model.backbone(torch.zeros(1, 3, 8, 48, 64)).shape == (1, 16)


def test_overlapping_patches_need_no_multiples(tmp_path):
    cfg = config(tmp_path, **{f"{DATASET}.pipeline.2.crop_size": 44})
    cfg.model.backbone = dict(
        type="mmvidformer.FeatureFixationTransformer",
        arch=dict(embed_dims=16, depth=1, num_heads=2),
        img_size=44,
        clip_len=4,
    )
    assert check(cfg) == ([], [])


@pytest.mark.parametrize(("world_size", "most"), [(1, None), (2, 2), (3, 2)])
def test_a_batch_that_is_dropped_whole_is_refused(tmp_path, world_size, most):
    """Four videos in batches of 3."""
    cfg = config(tmp_path, **{"train_dataloader.batch_size": 3, "train_dataloader.drop_last": True})
    if most is None:
        assert check(cfg, world_size=world_size) == ([], [])
        return
    assert error(cfg, world_size) == (
        f"train_dataloader.batch_size must be at most {most} with drop_last, got 3: 4 samples are "
        f"shared by {world_size} processes"
    )
    inner = cfg.train_dataloader.dataset
    cfg.train_dataloader.dataset = dict(type="RepeatDataset", times=3, dataset=inner)
    assert check(cfg, world_size=world_size) == ([], [])


def saved(path: Path, state: dict) -> str:
    """Write weights in the format of the suffix."""
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save({"state_dict": state, "meta": {}, "message_hub": {}}, path)
    return str(path)


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_weights_are_compared_with_the_model(tmp_path, weights, suffix):
    path = tmp_path / f"weights.{suffix}"
    cfg = config(tmp_path, load_from=saved(path, weights))
    assert check(cfg) == ([], [])  # training starts the head anew
    head = r"2 of another shape \(cls_head\.fc_cls\.weight \(5, 16\) instead of \(2, 16\), "
    test = config(tmp_path, load_from=str(path))
    test.test_dataloader = test.pop("train_dataloader")
    (message,) = check(test, ("test",))[0]
    assert re.search(rf"weights\.{suffix} does not fit the model of the config: {head}", message)

    few = {name: value for name, value in weights.items() if "embed" in name}
    saved(path, {**few, "other": torch.zeros(1)})
    assert re.search(
        r"\d+ missing \(\S+, \S+, \S+ and \d+ more\); 1 unexpected \(other\)", error(cfg)
    )
    saved(path, {f"module.{name}": value for name, value in weights.items()})
    assert check(cfg) == ([], [])
    saved(path, {"vivit.embeddings.weight": torch.zeros(2)})
    assert "none of the model's names" in error(cfg)
    path.write_bytes(path.read_bytes()[:-8])
    assert f"{path} is damaged" in error(cfg)


def test_shards_are_weights_too(tmp_path, weights):
    folder = tmp_path / "epoch_1.pth"
    folder.mkdir()
    saved(folder / "rank0.pth", weights)
    assert "has no complete.json" in error(config(tmp_path, load_from=str(folder)))
    mark_complete(folder, 1)
    assert check(config(tmp_path, load_from=str(folder))) == ([], [])


def test_resuming_needs_all_weights_and_the_state_of_training(tmp_path, weights):
    cfg = config(tmp_path, resume=True, load_from=saved(tmp_path / "a.pth", weights))
    assert "2 of another shape" in error(cfg)
    cfg.model.cls_head.num_classes = 5
    assert check(cfg) == ([], [])
    torch.save({"state_dict": weights}, tmp_path / "a.pth")
    assert "a.pth has no training state to resume; set load_from" in error(cfg)


def test_position_tables_of_another_size_fit(tmp_path, weights, caplog):
    cfg = config(tmp_path, load_from=saved(tmp_path / "a.pth", weights))
    cfg.model.cls_head.num_classes = 5
    cfg.model.backbone.update(img_size=64, clip_len=8)
    cfg.train_dataloader.dataset.pipeline[1].clip_len = 8
    cfg.train_dataloader.dataset.pipeline[2].crop_size = 64
    assert check(cfg, ("train",)) == ([], [])
    assert caplog.text == ""


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("was_run"),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Payload(), r"model\.pth is refused: it names pathlib\S+, and loading it could run code"),
        (torch.zeros(2), r"model\.pth must hold tensors by name, got a Tensor"),
        (None, r"model\.pth is damaged: it ends too early"),
    ],
    ids=["pickle", "tensor", "empty"],
)
def test_a_file_without_weights_is_refused(tmp_path, monkeypatch, content, message):
    """In words that do not recommend to switch the safety off, as PyTorch's own do."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pth"
    torch.save(content, path)
    if content is None:
        path.write_bytes(b"")
    found = error(config(tmp_path, load_from=str(path)))
    assert re.search(message, found)
    assert "weights_only" not in found and not Path("was_run").exists()
