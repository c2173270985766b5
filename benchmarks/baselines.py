"""A config's model, and baselines: models of other projects with the same weights.

=====================  ====================================================  =================
name                   model                                                 available for
=====================  ====================================================  =================
mmvidformer            the config's backbone and head                        every config
mmvidformer optimized  the same after ``optimize_for_inference``, or for     every config
                       training steps after ``optimize_for_training``
MMAction2              its TimeSformer and head                              TimeSformer
HuggingFace            the TimeSformer, ViViT, VideoMAE, V-JEPA 2 and        divided and joint;
                       VideoPrism of transformers, with their default        ViViT model 1; the
                       attention                                             last three
timm, frame by frame   an image ViT of the same size on one frame per        every config with
                       tubelet: other outputs, a floor for video models      square crops
=====================  ====================================================  =================

``python -m benchmarks.models`` measures them.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from torch import Tensor, nn

from benchmarks.transformers_models import build_classifier
from mmvidformer.apis.complexity import count_macs
from mmvidformer.checkpoints.video_models import to_other
from mmvidformer.config import clip_shape, type_name
from mmvidformer.errors import UserError
from mmvidformer.models import TimeSformer, ViViT
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.training import optimize_for_training
from mmvidformer.registry import MODELS

OURS = "mmvidformer"
OPTIMIZED = "mmvidformer optimized"

# Schemes of the official TimeSformer, and of HuggingFace's.
PUBLISHED = ("space_only", "joint_space_time", "divided_space_time")


@dataclass(frozen=True)
class Entry:
    """A model to measure.

    Args:
        name: Name in the table above.
        module: Maps the result of ``layout`` to logits (B, classes).
        layout: Converts a clip (B, 3, T, H, W) to the input of the module.
        comparable: Whether the outputs must equal those of the first model.
        trained: The module for training steps; default: the same.
    """

    name: str
    module: nn.Module
    layout: Callable[[Tensor], Tensor]
    comparable: bool = True
    trained: nn.Module | None = None

    def macs(self, shape: tuple[int, ...]) -> int:
        """Count the multiply-accumulates of one clip (3, T, H, W), as far as they are visible."""
        module = copy.deepcopy(self.module).eval().requires_grad_(False).to("meta")
        return count_macs(module, self.layout(torch.empty(1, *shape, device="meta")))


class _Logits(nn.Module):
    """Return only the logits (B, classes) of a HuggingFace model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, clip: Tensor) -> Tensor:
        return self.model(clip).logits.flatten(1)  # VideoPrism's have another axis


def build_entries(model: Mapping, optimize: bool = True, trained: bool = True) -> Iterator[Entry]:
    """Build a config's model and its baselines, one after the other.

    Weights are random, also those that usually start at zero, which would mask differences.
    Dropout and stochastic depth are off, since the models implement them differently.

    Args:
        model: ``model`` of a config with a backbone of this package.
        optimize: Whether to include the optimized model.
        trained: Whether it is for training steps too.

    Raises:
        UserError: If the model is recurrent.
    """
    if type_name(model) == "RecurrentRecognizer":
        raise UserError(f"{model['type']} is recurrent; measure it with python -m benchmarks.horst")
    torch.manual_seed(0)
    parts = {part: dict(model[part]) for part in ("backbone", "cls_head")}
    # Other projects' models freeze nothing, and nothing is loaded.
    for name in ("frozen_stages", "init_from"):
        parts["backbone"].pop(name, None)
    with DefaultScope.overwrite_default_scope("mmaction"):
        built = {part: MODELS.build(copy.deepcopy(cfg)) for part, cfg in parts.items()}
    ours = nn.Sequential(OrderedDict(built))
    fill_zeros(remove_noise(ours))
    yield Entry(OURS, ours, _unchanged)
    if optimize:
        for_training = copy.deepcopy(ours) if trained else None
        if for_training is not None:
            optimize_for_training(for_training)
        yield Entry(OPTIMIZED, optimize_for_inference(ours), _unchanged, trained=for_training)
    shape = clip_shape(Config({"model": parts}))
    theirs = build_classifier(ours, **parts) if find_spec("transformers") else None
    if theirs is not None:
        yield Entry("HuggingFace", remove_noise(_Logits(theirs)), _frames_first)
    yield from _baselines(ours, parts["backbone"].get("scheme", "divided_space_time"), shape)


@torch.no_grad()
def fill_zeros(model: nn.Module) -> nn.Module:
    """Give parameters that start at zero, which would mask differences, random values."""
    for parameter in model.parameters():
        if not parameter.any():
            parameter.normal_(std=0.02)
    return model


def remove_noise(model: nn.Module) -> nn.Module:
    """Turn off dropout and stochastic depth."""
    for part in model.modules():
        for name in ("drop_prob", "rate"):  # MMCV's, timm's and our stochastic depth
            if hasattr(part, name):
                setattr(part, name, 0.0)
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return model


def _unchanged(clip: Tensor) -> Tensor:
    return clip


def _frames_first(clip: Tensor) -> Tensor:
    return clip.transpose(1, 2).contiguous()


def _baselines(ours: nn.Module, attention: str, shape: tuple[int, ...]) -> Iterator[Entry]:
    backbone, state = ours.backbone, ours.state_dict()
    _, frames, height, width = shape
    tubelet, blocks = backbone.embed.tubelet, backbone.encoders[0].blocks
    heads = next(iter(blocks[0].sublayers.values())).attn.num_heads
    dim, hidden = backbone.embed_dims, blocks[0].mlp.fc1.out_features
    classes = ours.cls_head.num_classes
    if height != width or hidden % dim:
        return
    if _plain_timesformer(backbone, attention) and hidden == 4 * dim:
        theirs = _mmaction(
            classes,
            num_frames=frames,
            img_size=height,
            patch_size=tubelet[1],
            embed_dims=dim,
            num_heads=heads,
            num_transformer_layers=len(blocks),
            attention_type=attention,
        )
        theirs.load_state_dict(to_other(state, attention, "mmaction"))
        yield Entry("MMAction2", remove_noise(theirs), _unchanged)
    settings = dict(
        hidden_size=dim,
        num_hidden_layers=len(blocks),
        num_attention_heads=heads,
        intermediate_size=hidden,
        image_size=height,
        num_frames=frames,
        num_labels=classes,
        layer_norm_eps=1e-6,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    if find_spec("transformers"):
        theirs = None
        # HuggingFace's space_only does not average over frames.
        if _plain_timesformer(backbone, attention) and attention != "space_only":
            from transformers import TimesformerConfig, TimesformerForVideoClassification

            config = TimesformerConfig(
                **settings, patch_size=tubelet[1], attention_type=attention, drop_path_rate=0
            )
            theirs = TimesformerForVideoClassification(config)
            theirs.load_state_dict(to_other(state, attention, "huggingface"))
        elif _vivit_model_1(backbone):
            from transformers import VivitConfig, VivitForVideoClassification, __version__

            theirs = VivitForVideoClassification(
                VivitConfig(**settings, tubelet_size=list(tubelet))
            )
            names = "huggingface" if __version__ < "5" else "modules"
            theirs.load_state_dict(to_other(state, "spacetime", names))
        if theirs is not None:
            yield Entry("HuggingFace", remove_noise(_Logits(theirs)), _frames_first)
    if find_spec("timm"):
        yield _timm(dim, len(blocks), heads, hidden // dim, height, tubelet, classes)


def _vivit_model_1(backbone: nn.Module) -> bool:
    is_one = isinstance(backbone, ViViT) and backbone.scheme == "spacetime"
    return is_one and backbone.encoders[0].cls_token is not None


def _plain_timesformer(backbone: nn.Module, attention: str) -> bool:
    """Return whether attention, order and positions are those of the official code."""
    if not isinstance(backbone, TimeSformer) or attention not in PUBLISHED:
        return False
    sublayers, tables = (
        backbone.encoders[0].blocks[0].sublayers,
        backbone.encoders[0].pos_embed.tables,
    )
    wanted = ("hw",) if attention == "space_only" else ("hw", "t")
    if attention == "divided_space_time" and list(sublayers) != ["time", "space"]:
        return False
    skips = "time" not in sublayers or sublayers["time"].attn.cls == "skip"
    return tables == wanted and skips and not backbone.encoders[0].blocks[0].parallel


def _mmaction(classes: int, **settings: object) -> nn.Module:
    from mmaction.registry import MODELS as THEIRS

    backbone = dict(type="TimeSformer", norm_cfg=dict(type="LN", eps=1e-6), **settings)
    head = dict(type="TimeSformerHead", num_classes=classes, in_channels=settings["embed_dims"])
    parts = {"backbone": backbone, "cls_head": head}
    with DefaultScope.overwrite_default_scope("mmaction"):
        return nn.Sequential(OrderedDict({name: THEIRS.build(cfg) for name, cfg in parts.items()}))


def _timm(
    dim: int, depth: int, heads: int, ratio: int, side: int, tubelet: tuple, classes: int
) -> Entry:
    from timm.models import VisionTransformer

    vit = VisionTransformer(
        img_size=side,
        patch_size=tubelet[1],
        embed_dim=dim,
        depth=depth,
        num_heads=heads,
        mlp_ratio=ratio,
        num_classes=classes,
    )

    def frames_of(clip: Tensor) -> Tensor:
        return clip[:, :, :: tubelet[0]].transpose(1, 2).flatten(0, 1).contiguous()

    return Entry("timm, frame by frame", vit, frames_of, comparable=False)
