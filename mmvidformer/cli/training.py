"""A run of training, from the options of the command to its end."""

from collections.abc import Sequence
from contextlib import nullcontext

from mmengine.config import Config

from mmvidformer.config import load_config
from mmvidformer.config.fragments import merge
from mmvidformer.engine.inputs import check_apart, check_inputs, check_unused
from mmvidformer.engine.launch import build_runner
from mmvidformer.engine.optim.precision import check_precision, precision_fragment
from mmvidformer.engine.pipelines import use_shards
from mmvidformer.engine.process_group import is_first_process, start_processes
from mmvidformer.engine.run_options import TrainOptions
from mmvidformer.errors import UserError
from mmvidformer.finetune.schedule import stretch
from mmvidformer.storage.files import join, split_path
from mmvidformer.storage.resuming import hold


def train(options: TrainOptions, argv: Sequence[str]) -> int | None:
    """Train, in the processes that are asked for, which get the arguments of the command."""
    cfg = load_config(options.config, options.cfg_options)
    splits = ["train"] if options.no_validate else ["train", "val"]
    if options.shards is not None:
        use_shards(cfg, options.shards)  # whose lists need not be there
    check_inputs(cfg, splits, options.resume)
    if options.procs is not None and options.launcher == "none":
        return start_processes(["-m", "mmvidformer", "train", *argv], options.procs)
    options.merge(cfg)
    merge_options(cfg, options)
    if options.resume is None and not cfg.get("resume"):
        check_apart(cfg.get("load_from"), cfg.work_dir)
        if not options.force:
            check_unused(_checkpoint_folder(cfg))
    is_first = is_first_process(options.launcher)
    with hold(_checkpoint_folder(cfg)) if is_first else nullcontext():
        runner = build_runner(cfg, options.resume)
        if options.log:
            from mmvidformer.sinks.tracking import log_to  # takes a second

            log_to(runner, options.log, runner.work_dir if runner._resume else None)
        runner.train()


def merge_options(cfg: Config, options: TrainOptions) -> None:
    """Write the options of training into ``cfg``.

    Raises:
        UserError: If ``cfg`` lacks the base batch size for ``--auto-scale-lr``, or counts no
            ``--epochs``, or if ``--strategy fsdp`` has no launcher; or as ``check_precision``.
    """
    if options.epochs is not None:
        merge(cfg, stretch(cfg, options.epochs))
    if options.no_validate:
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    if options.amp is not None:
        merge(cfg, precision_fragment(cfg, options.amp))
    check_precision(cfg)
    if options.strategy == "fsdp":
        if cfg.launcher == "none":
            raise UserError("--strategy fsdp needs a launcher: start it with --procs")
        cfg.runner_type = "mmvidformer.ShardedRunner"
    if options.auto_scale_lr:
        if "base_batch_size" not in (cfg.get("auto_scale_lr") or {}):
            raise UserError(f"{options.config} has no auto_scale_lr.base_batch_size")
        cfg.auto_scale_lr.enable = True
    cfg.randomness = {"seed": None, **(cfg.get("randomness") or {})}
    for name in ("seed", "diff_rank_seed", "deterministic"):
        if getattr(options, name) is not None:
            cfg.randomness[name] = getattr(options, name)


def _checkpoint_folder(cfg: Config) -> str:
    """Return where MMEngine's hook will save checkpoints."""
    hook = (cfg.get("default_hooks") or {}).get("checkpoint") or {}
    work_dir = cfg.work_dir.rstrip("/")
    return join(hook.out_dir, split_path(work_dir)[1]) if hook.get("out_dir") else work_dir
