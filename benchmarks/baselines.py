"""A config's model, and the same model of other projects with the same weights.

=====================  ====================================================  ================
contestant             what it is                                            of
=====================  ====================================================  ================
mmvidformer            the config's backbone and head                        every config
mmvidformer optimised  that after ``optimize_for_inference``; no training    every config
MMAction2              its TimeSformer and head                              TimeSformer
HuggingFace            transformers' TimeSformer, with its default           divided, joint
                       attention; ViViT likewise                             ViViT model 1
timm, frame by frame   an image ViT of the same size on each (tubelet's)     every config
                       frame: other outputs, a floor for models of videos    with square crops
=====================  ====================================================  ================
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

from mmvidformer.analysis.complexity import count_products
from mmvidformer.config import clip_shape
from mmvidformer.convert.huggingface import to_huggingface
from mmvidformer.convert.timesformer import SPATIAL, to_timesformer
from mmvidformer.models import TimeSformer, ViViT
from mmvidformer.models.inference import optimize_for_inference
from mmvidformer.registry import MODELS

OURS = "mmvidformer"
OPTIMISED = "mmvidformer optimised"


@dataclass(frozen=True)
class Contestant:
    """Who takes part.

    Args:
        name: A name of the table above.
        module: Gives logits (B, classes) for what ``layout`` gives.
        layout: Puts a clip (B, 3, T, H, W) into the form that the module takes.
        comparable: Whether its outputs must be those of the first contestant.
        trains: Whether it can be trained.
    """

    name: str
    module: nn.Module
    layout: Callable[[Tensor], Tensor]
    comparable: bool = True
    trains: bool = True

    def macs(self, shape: tuple[int, ...]) -> int:
        """Multiply-accumulates of one clip (3, T, H, W), as far as they can be seen."""
        module = copy.deepcopy(self.module).eval().requires_grad_(False).to("meta")
        return count_products(module, self.layout(torch.empty(1, *shape, device="meta")))


class _Logits(nn.Module):
    """HuggingFace's models give an object that holds the logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, clip: Tensor) -> Tensor:
        return self.model(clip).logits


def contestants(model: Mapping, optimise: bool = True) -> Iterator[Contestant]:
    """Build all that take part for a config, one after the other; ours is the first.

    Weights are random, also those that start at zero, so that nothing hides in the comparison.
    Dropout and stochastic depth are off in all of them, as not all have the same.

    Args:
        model: ``model`` of a config: a recogniser of a backbone of this package.
        optimise: Whether the optimised model takes part.

    Raises:
        ValueError: If the config has a neck, as recurrent models do.
    """
    if "neck" in model:
        raise ValueError(
            f"{model['neck']['type']} goes from frame to frame: benchmarks/horst.py measures it"
        )
    torch.manual_seed(0)
    parts = {part: dict(model[part]) for part in ("backbone", "cls_head")}
    with DefaultScope.overwrite_default_scope("mmaction"):
        ours = nn.Sequential(OrderedDict({k: MODELS.build(cfg) for k, cfg in parts.items()}))
        with torch.no_grad():
            for parameter in ours.parameters():
                if not parameter.any():
                    parameter.normal_(std=0.02)
        _without_chance(ours)
    yield Contestant(OURS, ours, _as_it_is)
    if optimise:
        yield Contestant(OPTIMISED, optimize_for_inference(ours), _as_it_is, trains=False)
    shape = clip_shape(Config({"model": parts}))
    yield from _peers(ours, parts["backbone"].get("attention", "divided_space_time"), shape)


def _without_chance(model: nn.Module) -> nn.Module:
    for part in model.modules():
        for name in ("drop_prob", "rate"):  # MMCV's, timm's and our stochastic depth
            if hasattr(part, name):
                setattr(part, name, 0.0)
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return model


def _as_it_is(clip: Tensor) -> Tensor:
    return clip


def _frames_first(clip: Tensor) -> Tensor:
    return clip.transpose(1, 2).contiguous()


def _peers(ours: nn.Module, attention: str, shape: tuple[int, ...]) -> Iterator[Contestant]:
    backbone, state = ours.backbone, ours.state_dict()
    _, frames, height, width = shape
    tubelet, blocks = backbone.embed.tubelet, backbone.encoder.blocks
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
        theirs.load_state_dict(to_timesformer(state, attention, "mmaction"))
        yield Contestant("MMAction2", _without_chance(theirs), _as_it_is)
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
        # HuggingFace's space_only does not average the frames.
        if _plain_timesformer(backbone, attention) and attention != "space_only":
            from transformers import TimesformerConfig, TimesformerForVideoClassification

            config = TimesformerConfig(
                **settings, patch_size=tubelet[1], attention_type=attention, drop_path_rate=0
            )
            theirs = TimesformerForVideoClassification(config)
            theirs.load_state_dict(to_timesformer(state, attention, "huggingface"))
        elif _vivit_model_1(backbone):
            from transformers import VivitConfig, VivitForVideoClassification

            theirs = VivitForVideoClassification(
                VivitConfig(**settings, tubelet_size=list(tubelet))
            )
            theirs.load_state_dict(to_huggingface(state, "modules"))
        if theirs is not None:
            yield Contestant("HuggingFace", _without_chance(_Logits(theirs)), _frames_first)
    if find_spec("timm"):
        yield _timm(dim, len(blocks), heads, hidden // dim, height, tubelet, classes)


def _vivit_model_1(backbone: nn.Module) -> bool:
    is_one = isinstance(backbone, ViViT) and backbone.scheme == "spacetime"
    return is_one and backbone.encoder.cls_token is not None


def _plain_timesformer(backbone: nn.Module, attention: str) -> bool:
    """Whether others have it: an attention of the official code, with its order and positions."""
    if not isinstance(backbone, TimeSformer) or attention not in SPATIAL:
        return False
    steps, tables = backbone.encoder.blocks[0].sublayers, backbone.encoder.pos_embed.tables
    wanted = ("hw",) if attention == "space_only" else ("hw", "t")
    if attention == "divided_space_time" and list(steps) != ["time", "space"]:
        return False
    skips = "time" not in steps or steps["time"].attn.cls == "skip"
    return tables == wanted and skips and not backbone.encoder.blocks[0].parallel


def _mmaction(classes: int, **settings: object) -> nn.Module:
    from mmaction.registry import MODELS as THEIRS

    backbone = dict(type="TimeSformer", norm_cfg=dict(type="LN", eps=1e-6), **settings)
    head = dict(type="TimeSformerHead", num_classes=classes, in_channels=settings["embed_dims"])
    parts = {"backbone": backbone, "cls_head": head}
    with DefaultScope.overwrite_default_scope("mmaction"):
        return nn.Sequential(OrderedDict({name: THEIRS.build(cfg) for name, cfg in parts.items()}))


def _timm(
    dim: int, depth: int, heads: int, ratio: int, side: int, tubelet: tuple, classes: int
) -> Contestant:
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

    return Contestant("timm, frame by frame", vit, frames_of, comparable=False)
