from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.runner import BaseLoop, Runner
from torch.utils.data import DataLoader

from mmvidformer.checkpoints.on_load import convert_for
from mmvidformer.config import idle_variables
from mmvidformer.engine.checkpointing.settings import check_state
from mmvidformer.engine.loading import load_weights, model_of, warn_of_pixels
from mmvidformer.errors import UserError
from mmvidformer.registry import HOOKS

# Whose parts behave in known ways.
KNOWN = {"mmaction", "mmcv", "mmengine", "mmvidformer", "torchvision"}
# All are installed into the folder cv2.
OPENCV = (
    *("opencv-python", "opencv-contrib-python"),
    *("opencv-python-headless", "opencv-contrib-python-headless"),
)


class WrongSetup(UserError):
    """A run that should not start. The message has a line for each problem."""


@HOOKS.register_module()
class PreflightHook(Hook):
    """Checks the datasets, the model and the loaded weights of a run before its first step.

    What surely cannot work is an error; what may be a mistake, or is a problem with parts of other
    projects, is a warning in the log. Loaded weights are checked as by ``Fit.check``.

    Raises:
        WrongSetup: If there are errors.
        WrongWeights: If loaded weights do not fit.
    """

    priority = "VERY_HIGH"  # before other hooks use loaded weights

    def before_run(self, runner: Runner) -> None:
        """Check the built datasets and the built model."""
        # Validation and test often share a file.
        problems = dict.fromkeys(_find_problems(runner) if is_main_process() else ())
        for is_error, problem in problems:
            if not is_error:
                runner.logger.warning(problem)
        if errors := [problem for is_error, problem in problems if is_error]:
            hint = "--cfg-options default_hooks.preflight=None skips the checks"
            raise WrongSetup("\n- ".join(["found before the start:", *errors]) + f"\n{hint}")

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Convert loaded weights, compare them with the model, and drop those of another shape."""
        training = isinstance(runner._train_loop, BaseLoop)
        purpose = "resume" if runner._resume else "start" if training else "evaluation"
        source = runner._load_from or "the checkpoint"
        convert_for(model_of(runner), checkpoint, source)
        fit = load_weights(model_of(runner), checkpoint)
        fit.check(source, purpose)
        if purpose == "resume":
            check_state(checkpoint, source)
        warn_of_pixels(runner.cfg, checkpoint, source)
        if fit.misfits():
            runner.logger.warning(f"{source}: {fit}; what does not fit keeps its initial weights")
        for name in checkpoint["state_dict"].keys() & fit.misfits():
            del checkpoint["state_dict"][name]


def _find_problems(runner: Runner) -> Iterator[tuple[bool, str]]:
    # They import MMAction2's datasets and models, which a look-up of a hook should not.
    from mmvidformer.data.bad_videos import SafeDataset, with_inner
    from mmvidformer.engine.preflight import checks
    from mmvidformer.engine.preflight.pairs import check_pairs

    yield from _check_opencv()
    for problem in idle_variables(runner.cfg.filename) if runner.cfg.filename else ():
        yield True, problem
    model = model_of(runner)
    datasets: dict[str, list[object]] = {"train": [], "val": [], "test": []}
    for split in ("train", "val", "test"):
        loop = getattr(runner, f"_{split}_loop")
        if not isinstance(loop, BaseLoop) or not isinstance(loop.dataloader, DataLoader):
            continue  # not part of this run, or not a loop of MMEngine
        yield from checks.check_script(loop.dataloader)
        policy = None
        for dataset in with_inner(loop.dataloader.dataset):
            if isinstance(dataset, SafeDataset):
                policy = dataset
            if {"dataset", "datasets"} & {*getattr(dataset, "__dict__", ())}:
                continue  # a wrapper
            datasets[split].append(dataset)
            head = getattr(model, "cls_head", model)
            parts = (dataset, model, head, *checks.steps_of(dataset, model))
            known = {type(part).__module__.partition(".")[0] for part in parts} <= KNOWN
            for is_error, problem in (
                *checks.check_samples(dataset, model, split, policy),
                *checks.check_classes(dataset, model, split),
            ):
                yield is_error and known, problem
        if split == "train":
            yield from checks.check_training(runner, model)
            yield from checks.check_loss(model)
    yield from check_pairs(datasets)


def _check_opencv() -> Iterator[tuple[bool, str]]:
    versions = {}
    for name in OPENCV:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    if len({*versions.values()}) > 1:
        listed = ", ".join(f"{name} {number}" for name, number in versions.items())
        yield False, f"{listed} share one folder: uninstall all, and install one version of them"
