"""Merge a sharded checkpoint into one file: merge_shards.py FOLDER TARGET.pth.

The folder is written by --strategy fsdp with fsdp.sharded_checkpoints=True. The merged
checkpoint can be tested, loaded into other training, and resumed with and without sharding.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence

import torch

from mmvidformer.atomic import write_atomically
from mmvidformer.engine.checkpointing.shards import merge_shards
from mmvidformer.engine.launch import run_tool


def main(argv: Sequence[str] | None = None) -> None:
    """Merge the shards."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="sharded checkpoint, such as work_dirs/x/epoch_3.pth")
    parser.add_argument("target", help="file to write")
    parser.add_argument("--weights-only", action="store_true", help="keep only weights and meta")
    args = parser.parse_args(argv)
    checkpoint = merge_shards(args.folder)
    if args.weights_only:
        checkpoint = {name: checkpoint[name] for name in ("meta", "state_dict")}
    with write_atomically(args.target) as part:
        torch.save(checkpoint, part)
    print(f"wrote {args.target}: {', '.join(checkpoint)}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
