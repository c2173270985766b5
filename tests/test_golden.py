"""Outputs compared with those of the reference implementations.

Each file is a case. ``MMVIDFORMER_GOLDEN_DIR`` overrides the folder. All shapes and settings are
read from the files, so any file of the same form can be added. Files of a family without a row in
``FAMILIES`` are for other software and are ignored.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mmvidformer.checkpoints import read_model
from mmvidformer.checkpoints.backbones import backbone_arguments
from mmvidformer.checkpoints.flax import from_scenic
from mmvidformer.checkpoints.keymap import apply_rules, count_blocks
from mmvidformer.checkpoints.video_models import from_feature_fixation, from_timesformer
from mmvidformer.data.transforms.sampling import ObserveBefore
from mmvidformer.models import FeatureFixationTransformer, Horst, TimeSformer, ViViT
from mmvidformer.models.horst.classifiers import LinearClassifier, UnrollingClassifier
from mmvidformer.models.horst.layer import HorstLayer
from mmvidformer.models.horst.statt import States
from mmvidformer.tasks.multi_task import AnticipationMetric
from tests.official_horst import from_horst, layer_rules

DEFAULT = Path(__file__).parent / "golden"
FOLDER = Path(os.environ.get("MMVIDFORMER_GOLDEN_DIR") or DEFAULT)
MSGPACK = ".flax.msgpack"
TOLERANCE = 1e-4

# Scheme of each reference model; other names in ``meta['model']`` differ in their weights only.
VIVIT_SCHEMES = {
    "m1": "spacetime",
    "m2": "factorized_encoder",
    "m3_space_time": "factorized_self_attention",
    "m3_time_space": "factorized_self_attention_ts",
    "m4": "factorized_dot_product",
}


def _check_vivit(path: Path, arrays: dict[str, np.ndarray], meta: dict) -> None:
    assert meta["input"] == "N T H W C" and meta["output"] == "logits", meta
    assert meta["gelu"] == "tanh" and meta["layernorm_eps"] == 1e-6, meta
    tubelet = tuple(meta["tubelet_size"])
    size = arrays["input"].shape[1:4]
    grid = tuple(n // p for n, p in zip(size, tubelet, strict=True))
    fitting = [one for name, one in VIVIT_SCHEMES.items() if meta["model"].startswith(name)]
    assert len(fitting) == 1, f"{meta['model']!r} is none of {sorted(VIVIT_SCHEMES)}"
    (scheme,) = fitting
    if path.name.endswith(MSGPACK):
        result = read_model(path, grid=grid, scheme=scheme)[1]
    else:
        result = from_scenic(_params(arrays), grid=grid, scheme=scheme)
    assert result.num_heads == meta["num_heads"]
    settings = backbone_arguments(result)
    assert settings["stem"]["tubelet"] == tubelet

    backbone = ViViT(**settings | {"clip_len": size[0]})
    model = _recognizer(backbone, result.state)
    clip = torch.from_numpy(arrays["input"]).float().permute(0, 4, 1, 2, 3)
    logits = model["cls_head"].fc_cls(model["backbone"](clip))
    _assert_equal(logits, arrays["output"])


def _check_timesformer(path: Path, arrays: dict[str, np.ndarray], meta: dict) -> None:
    assert meta["input"] == "N C T H W" and meta["output"] == "logits", meta
    assert meta["layernorm_eps"] == 1e-6, meta
    clip, patch = torch.from_numpy(arrays["input"]).float(), meta["patch_size"]
    frames, height, width = clip.shape[2:]
    result = from_timesformer(_params(arrays), grid=(1, height // patch, width // patch))
    assert result.scheme == meta["attention"]
    hidden, embed_dims = result.state["backbone.encoders.0.blocks.0.mlp.fc1.weight"].shape
    arch = {
        "embed_dims": embed_dims,
        "depth": count_blocks(result.state, "backbone.encoders.0.blocks."),
        "num_heads": meta["num_heads"],
        "mlp_ratio": hidden / embed_dims,
    }
    backbone = TimeSformer(
        arch,
        meta["attention"],
        img_size=(height, width),
        clip_len=meta["num_frames"],
        stem=dict(tubelet=(1, patch, patch)),
        # As in the reference, for clips of another size than its tables.
        positions=dict(type="space_time", rule="nearest"),
    )
    model = _recognizer(backbone, result.state)
    features = model["backbone"](clip)
    logits = model["cls_head"].fc_cls(features)
    _assert_equal(features, arrays["features"])
    _assert_equal(logits, arrays["output"])


def _check_feature_fixation(path: Path, arrays: dict[str, np.ndarray], meta: dict) -> None:
    assert meta["input"] == "N C T H W" and meta["output"] == "features N T (H W) D", meta
    clip = torch.from_numpy(arrays["input"]).float()
    frames, height, width = clip.shape[2:]
    result = from_feature_fixation(_params(arrays))
    assert result.num_heads in (None, meta["num_heads"])
    result.num_heads = meta["num_heads"]
    settings = backbone_arguments(result)
    fixations = {"none": None, "shared": "qkv_shared", "unshared": "qkv"}
    assert settings["fixation"] == fixations[meta["gate"]]
    stride, padding, side = meta["stride"], meta["padding"], meta["patch_size"]
    convolution = dict(stride=(1, stride, stride), padding=(0, padding, padding), norm=True)
    assert settings["stem"] == dict(tubelet=(1, side, side), **convolution)
    assert settings["clip_len"] == frames
    shifts = {
        "temporal": {"type": "temporal", "divisor": meta["shift_div"]},
        "spatial": {"type": "spatial", "distance": meta["spatial_shift_size"]},
    }
    backbone = FeatureFixationTransformer(
        **settings, img_size=(height, width), shifts=shifts if meta["shifts"] else {}
    )
    model = nn.ModuleDict({"backbone": backbone})
    model.load_state_dict(result.state)
    features = model.eval()["backbone"](clip)
    _assert_equal(features.flatten(2, 3), arrays["features"])


def _check_statt(arrays: dict[str, np.ndarray], meta: dict) -> None:
    assert meta["input"] == "query 1 N C H W; key_value S N 2C H W", meta
    query, states = (torch.from_numpy(arrays[name]) for name in ("query", "key_value"))
    layer = HorstLayer(query.shape[2], query.shape[2])
    rules = [rule for rule in layer_rules("", "") if rule.sources[0].startswith("mha.")]
    params = {f"mha.{name}": value for name, value in _params(arrays).items()}
    weights = apply_rules(params, rules, ignored=[r"mha\.v_post_f\..*"]).state
    assert not layer.load_state_dict(weights, strict=False).unexpected_keys
    entries = []
    for state in states:
        e, h = state.chunk(2, dim=1)
        key, value = (part(part.ahead({"e": e}), h) for part in (layer.key, layer.value))
        entries.append(layer.attend.remember(key, value))
    key, value, gate = (torch.stack(parts, dim=1) for parts in zip(*entries, strict=True))
    remembered = States(torch.tensor([len(entries)]), key, value, gate)
    _assert_equal(layer.attend(layer.query(query[0]), remembered), arrays["output"])


def _check_horst_layers(arrays: dict[str, np.ndarray], meta: dict) -> None:
    assert meta["input"] == "N T C H W", meta
    clip = torch.from_numpy(arrays["input"])
    outer = arrays["y"] if "y" in arrays else arrays["output"]
    strides = arrays.get("strides", [clip.shape[-1] // outer.shape[-1]])
    channels = arrays.get("hidden", outer.shape[2:3])
    sizes = [[*map(int, values)] for values in (channels, strides)]
    model = Horst(clip.shape[2], *sizes, order=int(arrays["steps"]))
    state = from_horst(_params(arrays)).state
    model.load_state_dict({k.removeprefix("neck."): v for k, v in state.items()})
    output = model(clip)[0]
    for name, value in {"y": output.y, "e": output.e, "statt": output.statt}.items():
        if name in arrays:
            _assert_equal(value, arrays[name])
    if "output" in arrays:
        _assert_equal(output.y, arrays["output"])
        padded = model(clip, torch.from_numpy(arrays["length"]))[0].y
        _assert_equal(padded, arrays["output_with_length"])


def _check_horst_classifier(arrays: dict[str, np.ndarray], meta: dict) -> None:
    assert meta["input"] == "N T C H W 3 (last axis: y_t, e_t, STATT_t)", meta
    kinds = {"classifier": LinearClassifier, "unrolling": UnrollingClassifier}
    stem = "cls_head.classifier."
    weights = {k.removeprefix(stem): v for k, v in from_horst(_params(arrays)).state.items()}
    maps = torch.from_numpy(arrays["input"])
    steps, channels = maps.shape[1:3]
    tasks = {task: len(weights[f"{task}.weight"]) for task in ("action", "verb", "noun")}
    model = kinds[meta["part"]](channels, tasks).eval()
    model.load_state_dict(weights)
    logits = model(*maps.mean((3, 4)).unbind(-1), ahead=[14 - t for t in range(steps)])
    for task in tasks:
        for t in range(steps):
            _assert_equal(logits[task][:, t], arrays[f"{task}_{t}"])


# Comparison with each of the official classes.
HORST_PARTS = {
    "statt": _check_statt,
    "cell": _check_horst_layers,
    "stack": _check_horst_layers,
    "classifier": _check_horst_classifier,
    "unrolling": _check_horst_classifier,
}


def _check_anticipation_frames(path: Path, arrays: dict[str, np.ndarray], meta: dict) -> None:
    step, count, fps = (arrays[name].item() for name in ("time_step", "sequence_length", "fps"))
    observe = ObserveBefore(step, count)
    found = [observe.frames(start / fps, fps) for start in arrays["starts"].tolist()]
    np.testing.assert_array_equal(found, arrays["frames"])
    np.testing.assert_array_equal([frames[-1] >= 1 for frames in found], arrays["valid"])


def _check_anticipation_metrics(path: Path, arrays: dict[str, np.ndarray], meta: dict) -> None:
    pairs = np.stack([arrays["action_verb"], arrays["action_noun"]], axis=1)
    times = arrays["tau_a"].tolist()
    tasks = ("verb", "noun", "action")
    labels = torch.from_numpy(np.stack([arrays[f"label_{task}"] for task in tasks], axis=1))
    scores = {task: torch.from_numpy(arrays[f"scores_{task}"]) for task in tasks}
    samples = [
        {"pred_score": {task: scores[task][i] for task in tasks}, "gt_label": labels[i]}
        for i in range(len(labels))
    ]
    for name in ("many_shot", "all"):
        many_shot = {task: arrays[f"many_shot_{task}"].tolist() for task in tasks[:2]}
        metric = AnticipationMetric(
            time_step=times[-1], many_shot=many_shot if name == "many_shot" else None
        )
        metric.dataset_meta = {"actions": pairs.tolist()}
        metric.process(None, samples)
        found = metric.evaluate(len(samples))
        for task in tasks:
            for own, key in (("top1", "top1"), ("top5", "top5"), ("recall5", f"recall5_{name}")):
                ours = [found[f"{task}/{own}_{time:.2f}s"] for time in times]
                # The sums have another order, which changes the last digit of a double.
                np.testing.assert_allclose(ours, arrays[f"{key}_{task}"], rtol=0, atol=1e-14)


def _params(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {
        name.removeprefix("param:"): torch.from_numpy(array)
        for name, array in arrays.items()
        if name.startswith("param:")
    }


def _recognizer(backbone: nn.Module, state: dict[str, Tensor]) -> nn.ModuleDict:
    model = nn.ModuleDict({"backbone": backbone, "cls_head": nn.Module()})
    classes, width = state["cls_head.fc_cls.weight"].shape
    model["cls_head"].fc_cls = nn.Linear(width, classes)
    model.load_state_dict(state)
    return model.eval()


def _assert_equal(output: Tensor, expected: np.ndarray) -> None:
    wanted = torch.from_numpy(expected).float()
    torch.testing.assert_close(output, wanted, atol=TOLERANCE, rtol=TOLERANCE)


FAMILIES: dict[str, Callable[[Path, dict[str, np.ndarray], dict], None]] = {
    "anticipation_frames": _check_anticipation_frames,
    "anticipation_metrics": _check_anticipation_metrics,
    "feature_fixation": _check_feature_fixation,
    "horst": lambda _, arrays, meta: HORST_PARTS[meta["part"]](arrays, meta),
    "timesformer": _check_timesformer,
    "vivit": _check_vivit,
}


def _arrays_path(path: Path) -> Path:
    """File with input and output: the file itself, or that of the same name as a checkpoint."""
    if not path.name.endswith(MSGPACK):
        return path
    return path.with_name(path.name.removesuffix(MSGPACK) + ".npz")


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict]:
    with np.load(_arrays_path(path), allow_pickle=False) as file:
        arrays = dict(file)
    return arrays, json.loads(str(arrays.pop("meta")))


def _files(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.npz"), *folder.glob(f"*{MSGPACK}")])


def _family(path: Path) -> str | None:
    if not _arrays_path(path).is_file():  # a checkpoint without such a file; its case fails
        return next(iter(FAMILIES))
    with np.load(_arrays_path(path), allow_pickle=False) as file:
        return json.loads(str(file["meta"])).get("family") if "meta" in file.files else None


# Read in tests/checkpoints and tests/data.
ELSEWHERE = ("levjepa", "rand_augment", "streamformer", "trecvit", "videoprism", "vivit_start")
ELSEWHERE += ("vjepa2_1", "internvideo_next", "onevision", "sigreg")
CASES = [path for path in _files(FOLDER) if _family(path) in FAMILIES]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
@torch.no_grad()
def test_golden(path: Path) -> None:
    arrays, meta = _read(path)
    FAMILIES[meta["family"]](path, arrays, meta)


def test_folder_has_cases() -> None:
    assert CASES, f"no golden file of {sorted(FAMILIES)} in {FOLDER}"


def test_every_default_file_is_collected() -> None:
    files = [path for path in _files(DEFAULT) if not path.name.startswith(ELSEWHERE)]
    assert {_family(path) for path in files} == set(FAMILIES)
    assert {path.suffix for path in DEFAULT.iterdir()} <= {".npz", ".msgpack", ".md", ".py", ".txt"}
