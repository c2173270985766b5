"""The first screen of a run: model, data, devices and results instead of pages of settings."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.device import get_device
from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.logging import MMLogger
from mmengine.runner import BaseLoop, Runner


@contextmanager
def quiet_setup() -> Iterator[None]:
    """Log only warnings to the terminal while a runner or a model is built.

    The log file gets everything. A runner logs environment, config and hooks before its logger can
    be reached.
    """

    def call_handlers(logger: MMLogger, record: logging.LogRecord) -> None:
        for handler in logger.handlers:
            shown = isinstance(handler, logging.FileHandler) or record.levelno > logging.INFO
            if shown and record.levelno >= handler.level:
                handler.handle(record)

    original, MMLogger.callHandlers = MMLogger.callHandlers, call_handlers
    try:
        yield
    finally:
        MMLogger.callHandlers = original


class FirstScreenHook(Hook):
    """Logs model, data, devices and folder of the results when training or testing starts."""

    priority = "HIGHEST"

    def before_train(self, runner: Runner) -> None:
        """Log them with the sizes of the training and validation data."""
        self._show(runner, train=runner.train_loop, val=runner.val_loop)

    def before_test(self, runner: Runner) -> None:
        """Log them with the size of the test data."""
        self._show(runner, test=runner.test_loop)

    def _show(self, runner: Runner, **loops: BaseLoop | None) -> None:
        model = getattr(runner.model, "module", runner.model)  # of several processes
        parts = [getattr(model, name, None) for name in ("backbone", "neck", "cls_head")]
        names = ", ".join(type(part).__name__ for part in parts if part is not None)
        millions = sum(p.numel() for p in model.parameters()) / 1e6
        data = [f"{split} {len(loop.dataloader.dataset)}" for split, loop in loops.items() if loop]
        device = torch.cuda.get_device_name() if get_device() == "cuda" else get_device()
        runner.logger.info(
            "start\n"
            f"  model    {type(model).__name__}({names}), {millions:.2f} M parameters\n"
            f"  samples  {', '.join(data)}\n"
            f"  devices  {get_world_size()} x {device}\n"
            f"  results  {runner.work_dir}\n"
            f"  log      {runner.logger.log_file}, with environment, config and hooks"
        )
