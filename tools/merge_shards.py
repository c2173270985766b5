"""Make one ordinary checkpoint of one in shards: merge_shards.py FOLDER TARGET.pth.

The folder is a checkpoint of --strategy fsdp with strategy.sharded_checkpoints=True. The result
tests, starts other training, and resumes with --strategy fsdp on any number of processes.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence

import torch

from mmvidformer.engine.checkpointing.shards import merge_shards
from mmvidformer.engine.launch import run_tool


def main(argv: Sequence[str] | None = None) -> None:
    """Merge as the command line says."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="checkpoint in shards, such as work_dirs/x/epoch_3.pth")
    parser.add_argument("target", help="file to write")
    parser.add_argument(
        "--weights-only", action="store_true", help="leave out all but the weights and meta"
    )
    args = parser.parse_args(argv)
    checkpoint = merge_shards(args.folder)
    if args.weights_only:
        checkpoint = {name: checkpoint[name] for name in ("meta", "state_dict")}
    torch.save(checkpoint, args.target)
    print(f"{args.target}: {', '.join(checkpoint)}")


if __name__ == "__main__":
    sys.exit(run_tool(main))
