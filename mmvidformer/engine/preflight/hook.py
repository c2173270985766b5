"""Checks of runs that other tools start, and of weights when they are loaded."""

from collections.abc import Mapping, Sequence

from mmengine.hooks import Hook
from mmengine.runner import BaseLoop, Runner

from mmvidformer.engine.loading import build_meta_model, compare_weights, warn_of_pixels
from mmvidformer.engine.preflight import check_run
from mmvidformer.registry import HOOKS


@HOOKS.register_module()
class PreflightHook(Hook):
    """Refuses a run with a wrong setup before its first step.

    Loaded weights must fit the model. Testing and resuming need an exact fit; training with
    ``load_from`` starts with what fits, if that is half of the backbone. The tools check data
    before they build a runner, and leave only loaded weights to the hook.
    """

    priority = "VERY_HIGH"  # before other hooks use loaded weights

    data, weights = True, True  # what to check; set by the tools
    started = False

    def before_train(self, runner: Runner) -> None:
        """Check the data of training and validation."""
        self._check(runner, ("train", "val"))

    def before_test(self, runner: Runner) -> None:
        """Check the data of the test."""
        self._check(runner, ("test",))

    def _check(self, runner: Runner, splits: Sequence[str]) -> None:
        self.started = True
        hint = "default_hooks.preflight=None skips the checks"
        for warning in check_run(runner.cfg, splits, hint, weights=False) if self.data else ():
            runner.logger.warning(warning)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare loaded weights with the model, and drop those of another shape."""
        if not self.weights or not isinstance(runner.cfg.get("model"), Mapping):
            return
        training = isinstance(runner._train_loop, BaseLoop)
        purpose = "resume" if runner._resume else "start" if training else "evaluation"
        source = runner._load_from or "the checkpoint"
        fit = compare_weights(build_meta_model(runner.cfg), checkpoint)
        fit.check(source, purpose)
        warn_of_pixels(runner.cfg, checkpoint, source)
        if fit.misfits():
            runner.logger.warning(f"{source}: {fit}; what does not fit starts anew")
        weights = checkpoint.get("state_dict", checkpoint)
        for name in [n for n in weights if n.removeprefix("module.") in fit.misfits()]:
            del weights[name]
