"""A trained image model through every door: python -m benchmarks.real_weights FILE [--size 112].

FILE has a ViT in timm's names, of ``--model`` (default: vit_small_patch14_dinov2). A table says
what each part of this project makes of it, beside what timm or transformers return for an image
whose copies are the frames of a clip: the largest difference, relative to the largest value.
"""

import contextlib
import io
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import timm
import torch
from mmengine.registry import DefaultScope
from safetensors.torch import save_file
from timm.layers import resample_abs_pos_embed
from torch import Tensor, nn

from benchmarks.outputs import parse_with_results, with_suffixes
from mmvidformer import get_config
from mmvidformer.apis.features import backbone_features
from mmvidformer.checkpoints import convert_file
from mmvidformer.engine.tables import print_table
from mmvidformer.export import export, make_graph
from mmvidformer.models import FeatureFixationTransformer, TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.single_frames import encode_frames
from mmvidformer.registry import MODELS

FRAMES = 4
LAYERS = (5, 8, 11)
VIVIT = (
    "spacetime",
    "factorized_encoder",
    "factorized_self_attention",
    "factorized_dot_product",
)


class Source(NamedTuple):
    """A trained image model: its file, timm's model, an image, and a clip of its copies."""

    file: Path
    name: str
    image_model: nn.Module
    image: Tensor  # (1, 3, H, W)
    clip: Tensor  # (1, 3, FRAMES, H, W)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of models that start from it."""
        start = dict(source=str(self.file), positions="bicubic")
        return dict(
            arch=f"timm:{self.name}",
            img_size=self.image.shape[-1],
            clip_len=FRAMES,
            init_from=start,
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Try each door and print the table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="vit_small_patch14_dinov2")
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--out", type=Path, help="csv file of the table")
    args = parse_with_results(parser, argv, with_suffixes(""))
    source = read_source(args.file, args.model, args.size)
    rows = []
    for door in DOORS:
        with torch.no_grad():
            for what, compared, difference in door(source):
                rows.append([what, compared, difference])
                print(f"{what}: {difference}", flush=True)
    print_table(["door", "compared with", "largest difference"], rows, file=args.out)
    return 0


def read_source(file: Path, name: str, size: int) -> Source:
    """Load an image model into timm's class, and draw an image."""
    image_model: Any = timm.create_model(name, img_size=size, num_classes=0)
    state = torch.load(file, weights_only=True)
    patches = image_model.patch_embed.grid_size
    state["pos_embed"] = resample_abs_pos_embed(state["pos_embed"], patches)
    image_model.load_state_dict(state)
    torch.manual_seed(0)
    image = torch.randn(1, 3, size, size)
    clip = image[:, :, None].expand(-1, -1, FRAMES, -1, -1)
    return Source(file, name, image_model.eval(), image, clip)


def start(source: Source, model: Callable = TimeSformer, **options: Any) -> Any:
    """Return a model that starts from the image model."""
    torch.manual_seed(0)
    backbone = model(**{**source.options, **options})
    backbone.init_weights()
    return backbone.eval()


def say(ours: Tensor, theirs: Tensor) -> str:
    """Describe the largest difference."""
    return f"{float((ours - theirs).abs().max() / theirs.abs().max()):.1e}"


def try_presets(source: Source) -> Iterator[tuple[str, str, str]]:
    """Still clips have the features of their image."""
    wanted = source.image_model.forward_features(source.image)
    prefix = source.image_model.num_prefix_tokens
    for scheme in ("divided_space_time", "space_only"):
        backbone = start(source, scheme=scheme)
        vector = backbone(source.clip)
        yield f"TimeSformer, {scheme}", "timm, class token", say(vector, wanted[:, 0])
        places = backbone.forward_features(source.clip).places[:, 0].flatten(1, 2)
        yield f"TimeSformer, {scheme}", "timm, patches", say(places, wanted[:, prefix:])
    still = start(source, VideoTransformer, clip_len=1, cls="mean", positions="joint")
    yield (
        "VideoTransformer, a frame",
        "timm, class token",
        say(still(source.image[:, :, None]), wanted[:, 0]),
    )
    patch = source.image_model.patch_embed.patch_size[0]
    embedded = source.image_model.patch_embed(source.image)
    for embed in ("central_frame", "inflate"):
        options = {**source.options["init_from"], "embed": embed, "cls_token": "copy"}
        tubelets = dict(stem=dict(tubelet=(2, patch, patch)), init_from=options)
        starts = {f"ViViT, {name}": dict(model=ViViT, scheme=name) for name in VIVIT}
        starts["feature fixation"] = dict(model=FeatureFixationTransformer)
        for name, arguments in starts.items():
            backbone = start(source, **arguments, **tubelets)
            tokens = backbone.embed(source.clip)[:, 0].flatten(1, 2)
            yield f"{name}, {embed}", "timm, patch embedding", say(tokens, embedded)
        vivit = start(source, ViViT, scheme="factorized_encoder", **tubelets)
        vectors = encode_frames(vivit, source.clip)[:, :, 0, 0, 0]
        yield (
            f"ViViT, factorized_encoder, {embed}",
            "timm, class token of a tubelet",
            say(vectors, wanted[:, 0]),
        )


def try_layers(source: Source) -> Iterator[tuple[str, str, str]]:
    """Blocks are those of ``get_intermediate_layers``."""
    layers = source.image_model.get_intermediate_layers(source.image, n=[*LAYERS], norm=True)
    backbone = start(source, pool="none", out_layers=LAYERS, scheme="divided_space_time")
    tokens = backbone(source.clip)[:, 0].flatten(1, 2)
    yield "out_layers", "timm, get_intermediate_layers", say(tokens, torch.cat(layers, dim=-1))


def try_huggingface(source: Source) -> Iterator[tuple[str, str, str]]:
    """The same weights with HuggingFace's names, in its folder."""
    from transformers import Dinov2Config, Dinov2Model

    block = source.image_model.blocks[0]
    embed = source.image_model.patch_embed
    config = Dinov2Config(
        hidden_size=source.image_model.embed_dim,
        num_hidden_layers=len(source.image_model.blocks),
        num_attention_heads=block.attn.num_heads,
        patch_size=embed.patch_size[0],
        image_size=source.image.shape[-1],
    )
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        state = rename_for_huggingface(source.image_model.state_dict())
        save_file(state, Path(folder, "model.safetensors"), {"format": "pt"})
        model: Any = Dinov2Model.from_pretrained(folder).eval()
        init_from = dict(source=folder, positions="bicubic")
        vector = start(source, init_from=init_from)(source.clip)
    wanted = model(source.image).last_hidden_state
    timm_tokens = source.image_model.forward_features(source.image)
    yield "transformers, its folder", "timm, all tokens", say(wanted, timm_tokens)
    yield "the same folder", "transformers, class token", say(vector, wanted[:, 0])


def rename_for_huggingface(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of timm's DINOv2 as in the repositories of HuggingFace's hub."""
    words = [
        ("cls_token", "embeddings.cls_token"),
        ("pos_embed", "embeddings.position_embeddings"),
        ("patch_embed.proj", "embeddings.patch_embeddings.projection"),
        ("blocks.", "encoder.layer."),
        ("attn.proj", "attention.output.dense"),
        ("ls1.gamma", "layer_scale1.lambda1"),
        ("ls2.gamma", "layer_scale2.lambda1"),
    ]
    renamed = {}
    for name, value in state.items():
        for old, new in words:
            name = name.replace(old, new)
        if name.startswith("norm."):
            name = f"layernorm.{name[5:]}"
        if "attn.qkv" not in name:
            renamed[name] = value.contiguous()
            continue
        for part, piece in zip(("query", "key", "value"), value.chunk(3), strict=True):
            renamed[name.replace("attn.qkv", f"attention.attention.{part}")] = piece.contiguous()
    return renamed


def try_lora(source: Source) -> Iterator[tuple[str, str, str]]:
    """LoRA starts as the model, and its updates can be merged."""
    plain = start(source)(source.clip)
    backbone = start(source, lora=dict(rank=4, alpha=8.0, layers=["qkv", "proj"]))
    yield "LoRA, at the start", "without", say(backbone(source.clip), plain)
    for name, parameter in backbone.named_parameters():
        if name.endswith("lora_b"):
            parameter.normal_(std=0.02)
    trained = backbone(source.clip)
    merged = optimize_for_inference(backbone)(source.clip)
    yield "LoRA, merged", "updates beside", say(merged, trained)


def try_fast(source: Source) -> Iterator[tuple[str, str, str]]:
    """Kinds of inference."""
    backbone = start(source)
    plain = backbone(source.clip)
    yield "optimized", "as it is", say(optimize_for_inference(backbone)(source.clip), plain)
    small = optimize_for_inference(backbone, int8=True)(source.clip)
    yield "8 bits", "32 bits", say(small, plain)
    cosine = float(torch.cosine_similarity(small, plain))
    yield "8 bits", "32 bits, cosine", f"{cosine:.4f}"
    joint = start(source, scheme="joint_space_time")
    runs = start(source, scheme="joint_space_time", static=0.0)
    yield "run lengths, a still clip", "joint attention", say(runs(source.clip), joint(source.clip))


def try_recognizer(source: Source) -> Iterator[tuple[str, str, str]]:
    """Features, a file of ONNX, and what others say of the file."""
    cfg = get_config("timesformer_b_k400")
    cfg.model.backbone = dict(type="mmvidformer.TimeSformer", **source.options)
    cfg.model.cls_head.update(in_channels=source.image_model.embed_dim, num_classes=5)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(cfg.model).eval()
    model.init_weights()
    prefix = source.image_model.num_prefix_tokens
    preprocessor = model.data_preprocessor
    pixels = source.clip * preprocessor.std.view(3, 1, 1, 1) + preprocessor.mean.view(3, 1, 1, 1)
    tokens = backbone_features(model, pixels, tokens=True)
    wanted = source.image_model.forward_features(source.image)[:, prefix:]
    yield "features", "timm, patches", say(tokens[:, 0].flatten(1, 2), wanted)
    with tempfile.TemporaryDirectory() as folder:
        graph = make_graph(model, tuple(source.clip.shape[1:]))
        difference = export(graph, Path(folder, "model.onnx"))
        yield "ONNX Runtime", "the model, logits", f"{difference:.1e}"
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            try:
                convert_file(source.file, Path(folder, "out.pth"))
            except ValueError as error:
                said.write(str(error))
        yield (
            "convert of an image model",
            "what it says",
            said.getvalue().strip()[:300] or "nothing",
        )


DOORS = (try_presets, try_layers, try_huggingface, try_lora, try_fast, try_recognizer)

if __name__ == "__main__":
    raise SystemExit(main())
