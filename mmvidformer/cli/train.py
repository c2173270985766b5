"""Train a recognizer: mmvidformer train CONFIG [options]."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.util import find_spec

from mmengine.config import Config

from mmvidformer.config import load_config
from mmvidformer.config.fragments import merge
from mmvidformer.engine.arguments import add_model_arguments, positive
from mmvidformer.engine.inputs import check_apart, check_inputs, check_unused
from mmvidformer.engine.launch import build_runner
from mmvidformer.engine.optim.precision import check_precision, precision_fragment
from mmvidformer.engine.options import add_options, read_options
from mmvidformer.engine.pipelines import use_shards
from mmvidformer.engine.process_group import is_first_process, start_processes
from mmvidformer.engine.run_options import RunnerOptions
from mmvidformer.errors import UserError
from mmvidformer.finetune.schedule import stretch
from mmvidformer.storage.files import join, split_path
from mmvidformer.storage.resuming import hold


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    add_model_arguments(parser, checkpoint=False, device=False)
    used = parser.add_mutually_exclusive_group()
    used.add_argument(
        "--force",
        action="store_true",
        help="start again in a work dir with checkpoints, and replace those of the same name",
    )
    used.add_argument(
        "--resume",
        nargs="?",
        const="auto",
        help="resume from this checkpoint; without a path, from the last complete one in the work "
        "dir, or start from the beginning if there is none",
    )
    parser.add_argument(
        "--epochs",
        type=positive,
        metavar="N",
        help="train for N epochs in all, with the schedule stretched; with --resume, a finished "
        "run goes on",
    )
    parser.add_argument(
        "--amp",
        nargs="?",
        const="auto",
        choices=["auto", "fp16", "bf16"],
        help="use mixed precision; auto is fp16 on a GPU and bf16 on a CPU",
    )
    parser.add_argument("--no-validate", action="store_true", help="train without validation")
    parser.add_argument(
        "--auto-scale-lr",
        action="store_true",
        help="scale the learning rate by the real batch over auto_scale_lr.base_batch_size",
    )
    parser.add_argument("--seed", type=int, help="random seed", metavar="N")
    flag = dict(action="store_true", default=None)  # None: the config's
    parser.add_argument("--diff-rank-seed", **flag, help="add the number of a process to its seed")
    parser.add_argument("--deterministic", **flag, help="use deterministic algorithms of cuDNN")
    parser.add_argument(
        "--strategy",
        choices=["ddp", "fsdp"],
        default="ddp",
        help="how several processes share the model: a copy in each, or a shard in each",
    )
    parser.add_argument(
        "--tensorboard",
        action="store_true",
        help="also log for TensorBoard (pip install tensorboard), in <work dir>/*/vis_data",
    )
    add_options(parser, RunnerOptions)
    return parser.parse_args(argv)


def merge_arguments(cfg: Config, args: Namespace) -> None:
    """Write the arguments of training into ``cfg``.

    Raises:
        UserError: If ``cfg`` lacks the base batch size for ``--auto-scale-lr`` or the visualizer
            for ``--tensorboard``, or counts no ``--epochs``, or if ``--strategy fsdp`` has no
            launcher; or as ``check_precision``.
        ModuleNotFoundError: If TensorBoard is not installed.
    """
    if args.epochs is not None:
        merge(cfg, stretch(cfg, args.epochs))
    if args.no_validate:
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    if args.amp is not None:
        merge(cfg, precision_fragment(cfg, args.amp))
    check_precision(cfg)
    if args.tensorboard:
        if not cfg.get("visualizer"):
            raise UserError(f"--tensorboard needs a visualizer in {args.config}")
        if find_spec("tensorboard") is None:
            raise ModuleNotFoundError("--tensorboard needs a package: pip install tensorboard")
        backends = cfg.visualizer.get("vis_backends") or []
        cfg.visualizer.vis_backends = [*backends, dict(type="TensorboardVisBackend")]
    if args.strategy == "fsdp":
        if cfg.launcher == "none":
            raise UserError("--strategy fsdp needs a launcher: start it with --procs")
        cfg.runner_type = "mmvidformer.ShardedRunner"
    if args.auto_scale_lr:
        if "base_batch_size" not in (cfg.get("auto_scale_lr") or {}):
            raise UserError(f"{args.config} has no auto_scale_lr.base_batch_size")
        cfg.auto_scale_lr.enable = True
    cfg.randomness = {"seed": None, **(cfg.get("randomness") or {})}
    for name in ("seed", "diff_rank_seed", "deterministic"):
        if getattr(args, name) is not None:
            cfg.randomness[name] = getattr(args, name)


def _checkpoint_folder(cfg: Config) -> str:
    """Return where MMEngine's hook will save checkpoints."""
    hook = (cfg.get("default_hooks") or {}).get("checkpoint") or {}
    work_dir = cfg.work_dir.rstrip("/")
    return join(hook.out_dir, split_path(work_dir)[1]) if hook.get("out_dir") else work_dir


def main(argv: Sequence[str] | None = None) -> int | None:
    """Train with the arguments of the command line."""
    args = parse_args(argv)
    options = read_options(RunnerOptions, args)
    cfg = load_config(args.config, args.cfg_options)
    splits = ["train"] if args.no_validate else ["train", "val"]
    if args.shards is not None:
        use_shards(cfg, args.shards)  # whose lists need not be there
    check_inputs(cfg, splits, args.resume)
    if options.procs is not None and options.launcher == "none":
        arguments = sys.argv[1:] if argv is None else argv
        return start_processes(["-m", "mmvidformer", "train", *arguments], options.procs)
    options.merge(cfg)
    merge_arguments(cfg, args)
    if args.resume is None and not cfg.get("resume"):
        check_apart(cfg.get("load_from"), cfg.work_dir)
        if not args.force:
            check_unused(_checkpoint_folder(cfg))
    is_first = is_first_process(options.launcher)
    with hold(_checkpoint_folder(cfg)) if is_first else nullcontext():
        build_runner(cfg, args.resume).train()
