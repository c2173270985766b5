"""A test of a recognizer, from the options of the command to its report."""

import json
import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn

from mmvidformer.checkpoints.published import PREFIX
from mmvidformer.config import config_name, leaf_datasets, load_config, pipelines
from mmvidformer.engine.inputs import check_inputs
from mmvidformer.engine.launch import build_runner
from mmvidformer.engine.loading import build_meta_model, model_of
from mmvidformer.engine.pipelines import align_clips, get_views, set_views, use_shards
from mmvidformer.engine.process_group import start_processes
from mmvidformer.engine.quiet import QuietRunner
from mmvidformer.engine.run_options import TestOptions
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.tasks.table import task_of


def run_test(options: TestOptions, argv: Sequence[str]) -> int | None:
    """Test and report, in the processes that are asked for, which get the command's arguments."""
    checkpoint = options.checkpoint or PREFIX + config_name(options.config)
    options = replace(options, checkpoint=checkpoint)
    cfg = load_config(options.config, options.cfg_options)
    cfg.load_from = options.checkpoint
    if options.shards is not None:
        use_shards(cfg, options.shards)  # whose lists need not be there
    check_inputs(cfg, [options.split])
    if options.procs is not None and options.launcher == "none":
        return start_processes(["-m", "mmvidformer", "test", *argv], options.procs)
    options.merge(cfg)
    merge_options(cfg, options)
    runner = build_runner(cfg)
    if options.log:
        from mmvidformer.sinks.tracking import log_to  # takes a second

        log_to(runner, options.log, os.path.dirname(checkpoint), options.split)
    # Folded weights are rounded otherwise in half precision, and sharded ones cannot be folded.
    if not cfg.test_cfg.get("fp16") and type(runner) is QuietRunner:
        runner.register_hook(OptimizeHook(shares_frames=options.align, **options.inexact))
    elif options.inexact:
        raise UserError("--int8 and --static go neither with --amp nor with a sharded model")
    report(runner.test(), runner, options)
    return None


def merge_options(cfg: Config, options: TestOptions) -> None:
    """Write the options of testing into ``cfg``.

    Raises:
        UserError: If ``cfg`` has no test or no such split, ``--dump`` names another file than .npz
            or .pkl, or the model has no head that ``--fuse`` is for.
    """
    parts = ["test_cfg", "test_dataloader", "test_evaluator"]
    if options.split == "val":
        parts += ["val_dataloader", "val_evaluator"]
    missing = [name for name in parts if cfg.get(name) is None]
    if missing:
        raise UserError(f"{options.config} has no {', '.join(missing)}")
    if options.split == "val":
        test_on_validation(cfg)
    cfg.resume = False
    if options.amp:
        cfg.test_cfg.fp16 = True
    if options.views is not None:
        set_views(cfg, *options.views)
    if options.align:
        from mmvidformer.models.fast.shared_frames import frames_of_stage  # not in each worker

        tubelet = frames_of_stage(build_meta_model(cfg))
        if tubelet is None:
            raise UserError("--align is for models whose first stage sees frames on their own")
        align_clips(cfg, tubelet)
    if options.fuse is not None:
        if "cls_head" not in cfg.model:
            raise UserError(f"--fuse needs a cls_head in the model of {options.config}")
        if getattr(build_meta_model(cfg).cls_head, "answers_parts", False):
            raise UserError(
                f"--fuse has no effect on the {cfg.model.cls_head.type} of {options.config}, which "
                "merges the parts of a video itself; leave it out"
            )
        cfg.model.cls_head.average_clips = options.fuse
    if options.dump is not None:
        evaluators = cfg.test_evaluator
        evaluators = evaluators if isinstance(evaluators, list | tuple) else [evaluators]
        if options.dump.endswith(".npz"):
            activation = task_of(cfg).activation or "none"
            dump = dict(type="mmvidformer.SaveScores", path=options.dump, activation=activation)
        elif options.dump.endswith((".pkl", ".pickle")):
            dump = dict(type="DumpResults", out_file_path=options.dump)
        else:
            raise UserError(f"--dump must name an .npz, .pkl or .pickle file, got {options.dump}")
        cfg.test_evaluator = [*evaluators, dump]


def test_on_validation(cfg: Config) -> None:
    """Let testing read the validation list, with the test pipeline."""
    test_pipeline = next(pipelines(cfg.test_dataloader.dataset))
    dataset = deepcopy(cfg.val_dataloader.dataset)
    for leaf in leaf_datasets(dataset):
        leaf.pipeline = test_pipeline
    cfg.test_dataloader.dataset = dataset
    cfg.test_evaluator = cfg.val_evaluator


class OptimizeHook(Hook):
    """Test a copy of the model that ``optimize_for_inference`` makes, whose scores are the same.

    Args:
        shares_frames: Whether the frames that clips of a batch share are encoded once.
        int8: See ``Recognizer``, as for the next.
        static: Likewise.
    """

    priority = "LOWEST"  # after hooks that change the weights, such as EMAHook

    def __init__(
        self, shares_frames: bool = False, int8: bool = False, static: float | None = None
    ) -> None:
        self.shares_frames, self.int8, self.static = shares_frames, int8, static

    def before_test_epoch(self, runner: Runner) -> None:
        """Replace the model, without a wrapper, which testing does not need."""
        from mmvidformer.apis.fast import make_fast  # as above
        from mmvidformer.models.fast.shared_frames import SharedFrames, split_stages

        self.model = runner.model
        plain = model_of(runner)
        fast = make_fast(plain, self.int8, self.static)
        if fast is not None:
            runner.model = fast
            stages = split_stages(fast) if self.shares_frames else None
            if stages is not None:
                fast.test_step = lambda batch: SharedFrames(stages).test_step(batch)
            runner.logger.info("the model is optimized for inference (optimize_for_inference)")

    def after_test_epoch(self, runner: Runner, metrics: Mapping | None = None) -> None:
        """Restore the model."""
        runner.model = self.model


def in_words(value: float, share: bool) -> str:
    """Format a result: a share as a percentage, counts and other values as numbers."""
    if share:
        return f"{100 * value:.2f}%"
    return str(value) if isinstance(value, int | np.integer) else f"{value:.4g}"


def is_certain(name: str, head: nn.Module | None) -> bool:
    """Whether a result counts every answer as right, as ``acc/top5`` of three classes does."""
    rank = name.removeprefix("acc/top")
    classes = getattr(head, "num_classes", None)
    return rank.isdecimal() and isinstance(classes, int) and int(rank) >= classes


@master_only
def report(metrics: Mapping[str, float], runner: Runner, options: TestOptions) -> None:
    """Print the metrics and save them as <split>_<views>_<fusion>.json in the work dir.

    A top-k of at least all classes is not printed: it is 100%, even for bad videos. The name of the
    file ends in _aligned, _int8 or _static if the test was.
    """
    from mmvidformer.tasks.shares import is_share  # not in each worker

    model = model_of(runner)
    views = "x".join(map(str, get_views(runner.cfg)))
    head = getattr(model, "cls_head", None)
    fuse = getattr(head, "average_clips", None)
    for name, value in metrics.items():
        if name == "bad_videos":
            print(f"bad videos: {value}")  # the log says which, and what they count as
        elif np.ndim(value) == 0 and not is_certain(name, head):  # not a confusion matrix
            called = name.replace("acc/top", "top-").replace("acc/mean1", "mean class accuracy")
            share = is_share(name, getattr(runner.test_loop.evaluator, "metrics", ()))
            print(f"{called}: {in_words(value, share)}")
    if not metrics.keys() - {"bad_videos"}:
        print("no result: no video has a label, or the log says why")
    aligned = ", aligned" if options.align else ""
    tested = f"{options.checkpoint} on {options.split}, {views} views (clips x crops{aligned})"
    print(f"{tested}, fusion of views: {fuse}")
    figures = dict(config=options.config, checkpoint=options.checkpoint, views=views, fuse=fuse)
    figures |= dict(metrics=metrics, **({"align": True} if options.align else {}))
    figures |= options.inexact
    marks = "_".join([views, str(fuse), *["aligned"] * options.align, *options.inexact])
    path = Path(runner.work_dir) / f"{options.split}_{marks}.json"
    with write_atomically(path) as part:
        part.write_text(json.dumps(figures, indent=2, default=lambda array: array.tolist()) + "\n")
    print(f"saved in {path}")
