"""Plain modules with timm's interface, for every kind of backbone and head."""

import copy

import pytest
import timm.data
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope
from timm.optim import create_optimizer_v2
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from mmvidformer import create_model, get_config, list_models, optimize_for_inference
from mmvidformer.apis.classifier import VideoClassifier
from mmvidformer.apis.factory import describe
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.registry import MODELS

ARCH = dict(embed_dims=16, depth=2, num_heads=2, mlp_ratio=2)
SMALL = dict(arch=ARCH, img_size=32, clip_len=4)
TRANSFORMERS = {
    "vivit_st_k400": SMALL,
    "vivit_fe_k400": dict(SMALL, temporal_depth=1),
    "vivit_fsa_k400": SMALL,
    "vivit_fdp_k400": SMALL,
    "vivit_l_fe_ek100": dict(SMALL, temporal_depth=1),
    "timesformer_b_k400": SMALL,
    "timesformer/table1/space_k400": SMALL,
    "timesformer/table1/axial_k400": SMALL,
    "timesformer/table1/local_global_k400": SMALL,
    "feature_fixation_k400": SMALL,
    "compose_windows_motion": {},
    "causal_transformer_early_motion": {},
    "causal_transformer_anticipation_motion": {},
}
RECURRENT = ("horst_early_motion", "horst_anticipation_motion")
EVERY = [*TRANSFORMERS, *RECURRENT]
TASKS = dict(verb=2, noun=3, action=5)


def made(name: str, **options: object) -> VideoClassifier:
    """A small model in evaluation mode whose weights are all far from zero."""
    torch.manual_seed(0)
    model = create_model(name, **{**TRANSFORMERS.get(name, {}), **options}).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def clip_of(frames: int = 4) -> Tensor:
    return torch.randn(2, 3, frames, 32, 32, generator=torch.Generator().manual_seed(1))


def joined(logits: Tensor | dict[str, Tensor]) -> Tensor:
    return torch.cat([*logits.values()], -1) if isinstance(logits, dict) else logits


def blocks_of(model: VideoClassifier) -> list[nn.Module]:
    if model.neck is not None:
        return list(model.neck.layers)
    return [block for encoder in model.backbone.encoders for block in encoder.blocks]


@pytest.mark.parametrize("name", EVERY)
@torch.no_grad()
def test_logits_and_names_of_weights_are_those_of_the_recognizer(name: str) -> None:
    model, cfg = made(name), get_config(name)
    cfg.model.backbone.update(TRANSFORMERS.get(name, {}))
    cfg.model.cls_head.in_channels = model.num_features
    with DefaultScope.overwrite_default_scope("mmaction"):
        recognizer = MODELS.build(cfg.model).eval()
    recognizer.load_state_dict(model.state_dict())
    clip = clip_of()
    expected = recognizer.cls_head(recognizer.extract_feat(clip[:, None])[0])
    found = model(clip)
    torch.testing.assert_close(joined(found), joined(expected), rtol=0, atol=0)
    assert torch.equal(joined(found), joined(model.forward_head(model.forward_features(clip))))
    if isinstance(found, dict):
        assert {task: rows.shape[-1] for task, rows in found.items()} == model.num_classes
    else:
        assert found.shape == (2, model.num_classes)


@pytest.mark.parametrize("name", EVERY)
@torch.no_grad()
def test_intermediates_are_what_hooks_see(name: str) -> None:
    model, clip, outputs = made(name), clip_of(), []
    hooks = [
        block.register_forward_hook(lambda _, __, output: outputs.append(output))
        for block in blocks_of(model)
    ]
    features = model.forward_features(clip)
    for hook in hooks:
        hook.remove()
    last, found = model.forward_intermediates(clip, return_prefix_tokens=True)
    torch.testing.assert_close(tree_leaves(last), tree_leaves(features), rtol=0, atol=0)
    assert len(found) == len(outputs) == len(blocks_of(model))
    for (grid, cls), output in zip(found, outputs, strict=True):
        if model.neck is not None:
            assert not cls.numel() and torch.equal(grid, output[0].y.movedim(2, -1))
            continue
        # Blocks have tokens (B, P + T H W, D); frames may be clips of their own.
        rows, _, width = output.shape
        prefix = cls.numel() // (rows * width)
        assert torch.equal(grid, output[:, prefix:].reshape(grid.shape))
        assert torch.equal(cls, output[:, :prefix].reshape(cls.shape))
    some = model.forward_intermediates(clip, [0, -1], intermediates_only=True)
    assert [x.dim() for x in some] == [5, 5]
    assert torch.equal(some[0], found[0][0]) and torch.equal(some[1], found[-1][0])
    (latest,) = model.forward_intermediates(clip, 1, intermediates_only=True)
    assert torch.equal(latest, found[-1][0])
    with pytest.raises(IndexError):
        model.forward_intermediates(clip, [len(found)])


@torch.no_grad()
def test_a_neck_without_layers_to_tell_apart_gives_its_output() -> None:
    cfg = get_config("horst_early_motion")
    mean = "benchmarks.running_mean.RunningMean"
    cfg.model.neck = dict(type=mean, in_channels=16, channels=[8, 32])
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = VideoClassifier(MODELS.build(cfg.model).eval(), cfg.model.cls_head)
    features, (grid,) = model.forward_intermediates(clip_of())
    assert torch.equal(grid, features.y.movedim(2, -1))


@torch.no_grad()
def test_norm_of_intermediates_is_that_of_their_encoder() -> None:
    model, clip = made("vivit_fe_k400"), clip_of()
    features, found = model.forward_intermediates(clip, norm=True)
    plain = model.forward_intermediates(clip, intermediates_only=True)
    first, second = model.backbone.encoders
    assert torch.equal(found[1], first.norm(plain[1])) and torch.equal(found[2], features.places)
    assert torch.equal(found[2], second.norm(plain[2]))


@pytest.mark.parametrize("name", EVERY)
def test_new_classifiers(name: str) -> None:
    model, clip = made(name), clip_of()
    tasks = isinstance(model.num_classes, dict)
    keys = list(model.num_classes) if tasks else []
    wanted = {key: TASKS[key] for key in keys} if tasks else 5
    before = {name: x.clone() for name, x in model.state_dict().items()}
    with torch.no_grad():
        features = model.forward_head(model.forward_features(clip), pre_logits=True)
    assert features.shape[-1] == model.head_hidden_size
    model.reset_classifier(wanted)
    logits = model(clip)
    assert model.num_classes == wanted and not model.cls_head.training
    shapes = {k: rows.shape[-1] for k, rows in logits.items()} if tasks else logits.shape[-1]
    assert shapes == wanted
    classifier = {name for name in before if name.startswith(model.pretrained_cfg["classifier"])}
    for name, value in model.state_dict().items():
        assert name in classifier or torch.equal(value, before[name])
    joined(logits).sum().backward()
    assert all(p.grad is not None for p in model.get_classifier().parameters())
    model.reset_classifier(0)
    assert torch.equal(model(clip), features) and model.num_classes == 0
    assert not list(model.get_classifier().parameters())
    model.reset_classifier(wanted)
    assert joined(model(clip)).shape[-1] == (sum(wanted.values()) if tasks else 5)
    with pytest.raises(ValueError, match="num_classes must be given as"):
        model.reset_classifier(5 if tasks else TASKS)


def test_hidden_layers_and_initialization_of_heads() -> None:
    model = made("feature_fixation_k400", num_classes=0)
    assert (model.num_features, model.head_hidden_size) == (16, 768)
    hidden = model.cls_head.fc_hidden
    model.train().reset_classifier(7)
    assert model.cls_head.fc_hidden is hidden and model.cls_head.training
    assert model.cls_head.fc_cls.weight.std().item() == pytest.approx(0.02, rel=0.1)
    model = made("vivit_fe_k400")
    model.double().reset_classifier(7)
    assert model.get_classifier().weight.dtype == torch.float64
    assert not model.get_classifier().weight.any()  # ViViT's starts at zero


@pytest.mark.parametrize("name", ["vivit_fe_k400", "timesformer_b_k400", *RECURRENT])
def test_checkpointing_can_be_set_later(name: str) -> None:
    model, clip, calls = made(name), clip_of(), []
    for block in blocks_of(model):
        first = next(part for part in block.modules() if isinstance(part, nn.LayerNorm | nn.Conv2d))
        first.register_forward_pre_hook(lambda *_: calls.append(1))
    grads, counts = [], []
    for enable in (False, True, False):
        model.set_grad_checkpointing(enable)
        model.train().zero_grad()
        torch.manual_seed(0)
        joined(model(clip)).square().sum().backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        counts.append(len(calls))
        calls.clear()
    depth = len(blocks_of(model))
    assert counts == [depth, 2 * depth, depth]
    for one, other in zip(grads[0], grads[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def decayed_by_mmengine(model: nn.Module, cfg: Config) -> set[str]:
    wrapper = copy.deepcopy(cfg.optim_wrapper)
    wrapper.optimizer = dict(type="SGD", lr=1.0, weight_decay=0.1)
    with DefaultScope.overwrite_default_scope("mmaction"):
        groups = build_optim_wrapper(model, wrapper).optimizer.param_groups
    decayed = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
    return {name for name, p in model.named_parameters() if id(p) in decayed}


@pytest.mark.parametrize("name", [*EVERY, "feature_fixation_image"])
def test_no_weight_decay(name: str) -> None:
    """Of matrices, timm exempts only tables and tokens; no recipe of a config exempts others."""
    model = made(name, **({} if name in EVERY else dict(SMALL, clip_len=1)))
    exempt = model.no_weight_decay()
    tables = {
        f"{prefix}.{name}"
        for prefix, part in model.named_modules()
        if type(part).__name__ in ("PositionEmbedding", "Encoder")
        for name, _ in part.named_parameters(recurse=False)
    }
    assert exempt == tables
    groups = create_optimizer_v2(model, "sgd", 1.0, weight_decay=0.1).param_groups
    ids = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
    decayed = {name for name, p in model.named_parameters() if id(p) in ids}
    assert decayed and not decayed & exempt
    assert all(model.get_parameter(name).ndim > 1 for name in decayed)
    assert decayed <= decayed_by_mmengine(model, get_config(name))


def test_descriptions() -> None:
    model = made("timesformer_b_k400", num_classes=3)
    cfg = model.pretrained_cfg
    assert model.default_cfg is cfg and model.num_classes == 3
    assert (cfg["architecture"], cfg["num_classes"], cfg["license"]) == (
        "timesformer_b_k400", 400, "CC-BY-NC-4.0",
    )  # fmt: skip
    assert cfg["url"].startswith("https://") and "hf_hub_id" not in cfg
    assert len(cfg["label_names"]) == 400 and cfg["label_names"][0] == "abseiling"
    assert cfg["input_size"] == (3, 4, 32, 32) and cfg["frame_interval"] == 32
    data = timm.data.resolve_model_data_config(model)
    assert data["mean"] == (0.45,) * 3 and data["std"] == (0.225,) * 3
    assert model.get_submodule(cfg["classifier"]) is model.get_classifier()


@pytest.mark.parametrize("name", list_models("*_motion") + ["horst_ek100"])
def test_input_size_is_one_that_the_model_takes(name: str) -> None:
    config = get_config(name)
    recognizer = build_meta_model(config)
    cfg = describe(config, recognizer)
    model = VideoClassifier(recognizer, config.model.cls_head, cfg).eval()
    logits = model(torch.empty(1, *cfg["input_size"], device="meta"))
    assert cfg["channels"] == ("BGR" if name == "horst_ek100" else "RGB")
    assert joined(logits).device.type == "meta"
    if name == "horst_ek100":
        assert cfg["input_size"] == (3, 14, 256, 454)
        assert cfg["num_classes"] == dict(verb=97, noun=300, action=3806)
        assert cfg["mean"][0] == pytest.approx(104 / 255) and cfg["std"][0] == pytest.approx(
            1 / 255
        )
        assert {rows.shape[:2] for rows in logits.values()} == {(1, 8)}


@torch.no_grad()
def test_optimized_and_exported() -> None:
    model, clip = made("timesformer_b_k400"), clip_of()
    expected = model(clip)
    torch.testing.assert_close(optimize_for_inference(model)(clip), expected, rtol=1e-4, atol=1e-4)
    program = torch.export.export(model, (clip,), strict=False)
    torch.testing.assert_close(program.module()(clip), expected, rtol=1e-4, atol=1e-4)


def test_copies_share_nothing() -> None:
    """``pre_logits`` leaves the head as it is."""
    model, clip = made("timesformer_b_k400"), clip_of()
    before = model(clip)
    model.forward_head(model.forward_features(clip), pre_logits=True)
    assert torch.equal(model(clip), before)
    other = copy.deepcopy(model)
    other.reset_classifier(2)
    assert model(clip).shape == (2, 400)
