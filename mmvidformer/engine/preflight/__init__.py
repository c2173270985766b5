"""What can be wrong with annotations, configs and checkpoints, found before the first step."""

import logging
from collections.abc import Sequence

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner

from mmvidformer.engine.preflight.annotations import check_annotations
from mmvidformer.engine.preflight.classes import check_checkpoint
from mmvidformer.engine.preflight.clips import check_clips
from mmvidformer.engine.preflight.problems import KINDS, Problem, WrongSetup
from mmvidformer.registry import HOOKS

__all__ = ["PreflightHook", "Problem", "WrongSetup", "check", "check_or_exit", "refuse"]


def check(cfg: Config, splits: Sequence[str] = ("train", "val", "test")) -> list[Problem]:
    """Find what is wrong with a config, its annotation files and its checkpoint.

    Reads annotation files and lists the folders of the data; opens no video, and writes nothing.
    ``cfg.preflight`` may be ``dict(skip=[...])`` with kinds of problems to pass over: ``columns``,
    ``labels``, ``duplicates``, ``missing_files``, ``outside``, ``clip_len``, ``crop_size``,
    ``checkpoint``, ``dataset``.

    Args:
        cfg: A whole config.
        splits: Loaders to look at; those that the config lacks are passed over.

    Raises:
        ValueError: If ``cfg.preflight.skip`` names an unknown kind.
    """
    skip = (cfg.get("preflight") or {}).get("skip", ())
    skip = {skip} if isinstance(skip, str) else set(skip)
    if not skip <= set(KINDS):
        unknown = ", ".join(sorted(skip - set(KINDS)))
        raise ValueError(f"preflight.skip: no kind {unknown}; there are {', '.join(KINDS)}")
    problems = []
    for split in splits:
        loader = cfg.get(f"{split}_dataloader")
        if loader and not loader.get("dataset"):
            remedy = f"Give {split}_dataloader.dataset, or set the loader to None."
            problems.append(Problem("dataset", f"{split}_dataloader", "has no dataset", remedy))
        elif loader:
            problems += check_clips(cfg, split, loader["dataset"])
            problems += check_annotations(cfg, loader["dataset"])
    problems += check_checkpoint(cfg)
    # Validation and test often share a file.
    return [problem for problem in dict.fromkeys(problems) if problem.kind not in skip]


def refuse(cfg: Config, splits: Sequence[str] = ("train", "val", "test")) -> None:
    """Refuse a config with which something is wrong; see ``check``.

    Raises:
        WrongSetup: With all that was found.
    """
    problems = check(cfg, splits)
    if problems:
        raise WrongSetup(problems)


def check_or_exit(cfg: Config, splits: Sequence[str]) -> None:
    """End the program with what was found, if anything: for tools, before they write anything."""
    try:
        refuse(cfg, splits)
    except WrongSetup as error:
        raise SystemExit(str(error)) from None


@HOOKS.register_module()
class PreflightHook(Hook):
    """Refuses a run with which something is wrong before its first step.

    For runners that are not started by our tools, which check before they make a runner and a work
    dir.
    """

    priority = "VERY_HIGH"

    def before_run(self, runner: Runner) -> None:
        """Check the runner's config.

        Raises:
            WrongSetup: With all that was found.
        """
        refuse(runner.cfg)
        print_log("annotations and config fit", logger="current", level=logging.INFO)
