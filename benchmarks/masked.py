"""Measure steps of masked pretraining.

python -m benchmarks.masked --threads 1

A step is a forward and a backward pass of the model after ``optimize_for_training``.
"time / unmasked" is the time of a pretraining step, with its decoder, relative to a step of the
backbone alone on the whole clip. "joint" is also compared with transformers' VideoMAEForPreTraining
of the same size. The steps take turns; the times are the least of all rounds.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers import VideoMAEConfig, VideoMAEForPreTraining

from benchmarks.attention import read_arch
from benchmarks.timing import time_call
from mmvidformer.models import VideoTransformer
from mmvidformer.models.fast.training import optimize_for_training
from mmvidformer.models.masked import MaskedPretraining

BLOCKS = {
    "joint": [dict(pattern="joint")],
    "divided": [dict(pattern="time"), dict(pattern="space")],
    "linear": [dict(pattern="joint", kernel="linear")],
    "axial": [dict(pattern=name) for name in ("time", "width", "height")],  # keeps all tokens
}


def main(argv: Sequence[str] | None = None) -> None:
    """Print a row for each model."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--arch", type=read_arch, default="384,12,6", help="width, depth, heads")
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--size", type=int, default=224, help="side in pixels")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--ratio", type=float, default=0.9, help="share that is masked")
    parser.add_argument("--models", nargs="+", choices=BLOCKS, default=[*BLOCKS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="default: PyTorch's")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    args = parser.parse_args(argv)
    if args.threads:
        torch.set_num_threads(args.threads)
    clips = torch.randn(args.batch, 3, args.frames, args.size, args.size, device=args.device)
    print("| model | unmasked ms | pretraining ms | time / unmasked | transformers / ours |")
    print("|---|---|---|---|---|")
    for name in args.models:
        block = BLOCKS[name]
        sizes = dict(clip_len=args.frames, img_size=args.size, stem=dict(tubelet=(2, 16, 16)))
        backbone = VideoTransformer(args.arch, block=block, positions="joint", **sizes)
        model = MaskedPretraining(backbone, args.ratio).to(args.device)
        optimize_for_training(model)
        steps = {
            "unmasked": lambda net=backbone: net(clips).square().mean(),
            "ours": lambda net=model: net.loss(clips, *net.draw_places(clips)),
        }
        if name == "joint":
            steps["transformers"] = reference(args.arch, clips, model)
        times = {key: float("inf") for key in steps}
        for _ in range(args.rounds + 1):  # the first one warms up
            for key, step in steps.items():
                times[key] = min(
                    times[key], time_call(lambda s=step: s().backward(), args.device)[0]
                )
        theirs = f"{times['transformers'] / times['ours']:.2f}" if name == "joint" else "-"
        shown = f"{times['ours'] / times['unmasked']:.2f} | {theirs}"
        print(f"| {name} | {1e3 * times['unmasked']:.0f} | {1e3 * times['ours']:.0f} | {shown} |")


def reference(arch: dict, clips: Tensor, ours: MaskedPretraining) -> Callable[[], Tensor]:
    """Return a step of transformers' model with the sizes of ours."""
    width = ours.to_decoder.out_features
    config = VideoMAEConfig(
        image_size=clips.shape[-1],
        num_frames=clips.shape[2],
        hidden_size=arch["embed_dims"],
        num_hidden_layers=arch["depth"],
        num_attention_heads=arch["num_heads"],
        intermediate_size=4 * arch["embed_dims"],
        decoder_hidden_size=width,
        decoder_intermediate_size=4 * width,
        decoder_num_attention_heads=arch["num_heads"] // 2,
        decoder_num_hidden_layers=len(ours.decoder.blocks),
        use_mean_pooling=False,
    )
    model = VideoMAEForPreTraining(config).to(clips.device).train()
    frames = clips.transpose(1, 2).contiguous()

    def step() -> Tensor:
        visible, _ = ours.draw_places(clips)
        mask = ~visible.mask().flatten(1).repeat(1, ours.backbone.grid[0])
        return model(frames, bool_masked_pos=mask).loss

    return step


if __name__ == "__main__":
    sys.exit(main())
