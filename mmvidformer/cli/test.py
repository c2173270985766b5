"""Test a recognizer on several views of each video: mmvidformer test CONFIG [CHECKPOINT]."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.dist import master_only
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.runner import Runner
from torch import nn

from mmvidformer.checkpoints.published import PREFIX
from mmvidformer.config import config_name, leaf_datasets, load_config, pipelines
from mmvidformer.engine.arguments import (
    add_force_argument,
    add_model_arguments,
    check_outputs,
)
from mmvidformer.engine.inputs import check_inputs
from mmvidformer.engine.launch import build_runner
from mmvidformer.engine.loading import build_meta_model
from mmvidformer.engine.model_options import SpeedOptions
from mmvidformer.engine.options import add_options, read_options
from mmvidformer.engine.pipelines import (
    align_clips,
    get_views,
    parse_views,
    set_views,
    use_shards,
)
from mmvidformer.engine.process_group import start_processes
from mmvidformer.engine.quiet import QuietRunner
from mmvidformer.engine.run_options import RunnerOptions
from mmvidformer.errors import UserError
from mmvidformer.storage.atomic import write_atomically


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    add_model_arguments(parser, checkpoint=None, device=False)
    parser.add_argument(
        "--views",
        type=parse_views,
        metavar="KxC",
        help="temporal clips x spatial crops (1, 3 or 10) of each video (default: the config's)",
    )
    parser.add_argument(
        "--split",
        choices=["test", "val"],
        default="test",
        help="list to test on; both are tested alike (default: test)",
    )
    parser.add_argument(
        "--fuse",
        choices=["score", "prob"],
        help="average the logits of the views, or their probabilities (default: the config's)",
    )
    parser.add_argument(
        "--align",
        action="store_true",
        help="move clips by a few frames, so that models of single frames compute those that clips "
        "share once; the scores are not those of the published protocols",
    )
    parser.add_argument("--dump", metavar="FILE", help="file of scores and labels: .npz or .pkl")
    parser.add_argument(
        "--amp", action="store_true", help="mixed precision: fp16 on a GPU, bf16 on a CPU"
    )
    add_options(parser, SpeedOptions)
    add_options(parser, RunnerOptions)
    add_force_argument(parser)
    args = parser.parse_args(argv)
    if args.dump is not None:
        check_outputs(vars(args), [("--dump", args.dump)], "dump")
    args.checkpoint = args.checkpoint or PREFIX + config_name(args.config)
    return args


def merge_arguments(cfg: Config, args: Namespace) -> None:
    """Write the arguments of testing into ``cfg``.

    Raises:
        UserError: If ``cfg`` has no test or no such split, ``--dump`` names another file than .npz
            or .pkl, or the model has no head that ``--fuse`` is for.
    """
    parts = ["test_cfg", "test_dataloader", "test_evaluator"]
    if args.split == "val":
        parts += ["val_dataloader", "val_evaluator"]
    missing = [name for name in parts if cfg.get(name) is None]
    if missing:
        raise UserError(f"{args.config} has no {', '.join(missing)}")
    if args.split == "val":
        test_on_validation(cfg)
    cfg.resume = False
    if args.amp:
        cfg.test_cfg.fp16 = True
    if args.views is not None:
        set_views(cfg, *args.views)
    if args.align:
        from mmvidformer.models.fast.shared_frames import frames_of_stage  # not in each worker

        tubelet = frames_of_stage(build_meta_model(cfg))
        if tubelet is None:
            raise UserError("--align is for models whose first stage sees frames on their own")
        align_clips(cfg, tubelet)
    if args.fuse is not None:
        if "cls_head" not in cfg.model:
            raise UserError(f"--fuse needs a cls_head in the model of {args.config}")
        if getattr(build_meta_model(cfg).cls_head, "answers_parts", False):
            raise UserError(
                f"--fuse has no effect on the {cfg.model.cls_head.type} of {args.config}, which "
                "merges the parts of a video itself; leave it out"
            )
        cfg.model.cls_head.average_clips = args.fuse
    if args.dump is not None:
        evaluators = cfg.test_evaluator
        evaluators = evaluators if isinstance(evaluators, list | tuple) else [evaluators]
        if args.dump.endswith(".npz"):
            dump = dict(type="mmvidformer.SaveScores", path=args.dump)
        elif args.dump.endswith((".pkl", ".pickle")):
            dump = dict(type="DumpResults", out_file_path=args.dump)
        else:
            raise UserError(f"--dump must name an .npz, .pkl or .pickle file, got {args.dump}")
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
        plain = runner.model.module if is_model_wrapper(runner.model) else runner.model
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
def report(metrics: Mapping[str, float], runner: Runner, args: Namespace) -> None:
    """Print the metrics and save them as <split>_<views>_<fusion>.json in the work dir.

    A top-k of at least all classes is not printed: it is 100%, even for bad videos. The name of the
    file ends in _aligned, _int8 or _static if the test was.
    """
    from mmvidformer.tasks.shares import is_share  # not in each worker

    model = runner.model.module if is_model_wrapper(runner.model) else runner.model
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
    aligned = ", aligned" if args.align else ""
    tested = f"{args.checkpoint} on {args.split}, {views} views (clips x crops{aligned})"
    print(f"{tested}, fusion of views: {fuse}")
    figures = dict(config=args.config, checkpoint=args.checkpoint, views=views, fuse=fuse)
    figures |= dict(metrics=metrics, **({"align": True} if args.align else {}))
    inexact = read_options(SpeedOptions, args).inexact
    figures |= inexact
    marks = "_".join([views, str(fuse), *["aligned"] * args.align, *inexact])
    path = Path(runner.work_dir) / f"{args.split}_{marks}.json"
    with write_atomically(path) as part:
        part.write_text(json.dumps(figures, indent=2, default=lambda array: array.tolist()) + "\n")
    print(f"saved in {path}")


def main(argv: Sequence[str] | None = None) -> int | None:
    """Test with the arguments of the command line."""
    args = parse_args(argv)
    options = read_options(RunnerOptions, args)
    cfg = load_config(args.config, args.cfg_options)
    cfg.load_from = args.checkpoint
    if args.shards is not None:
        use_shards(cfg, args.shards)  # whose lists need not be there
    check_inputs(cfg, [args.split])
    if options.procs is not None and options.launcher == "none":
        arguments = sys.argv[1:] if argv is None else argv
        return start_processes(["-m", "mmvidformer", "test", *arguments], options.procs)
    options.merge(cfg)
    merge_arguments(cfg, args)
    runner = build_runner(cfg)
    inexact = read_options(SpeedOptions, args).inexact
    # Folded weights are rounded otherwise in half precision, and sharded ones cannot be folded.
    if not cfg.test_cfg.get("fp16") and type(runner) is QuietRunner:
        runner.register_hook(OptimizeHook(shares_frames=args.align, **inexact))
    elif inexact:
        raise UserError("--int8 and --static go neither with --amp nor with a sharded model")
    report(runner.test(), runner, args)
