import logging
from pathlib import Path

from mmengine.logging import MMLogger
from mmengine.optim import OptimWrapper, OptimWrapperDict
from mmengine.runner import BaseLoop, Runner

from mmvidformer.config.building import building
from mmvidformer.registry import RUNNERS
from mmvidformer.storage.targets import identity_of


@RUNNERS.register_module()
class QuietRunner(Runner):
    """MMEngine's runner, with the terminal for news and the log file for all.

    Config, environment, hooks and initial weights, which are texts of several lines, go to the file
    only. So do warnings that parts of MMEngine will be removed.
    """

    def build_logger(self, *args: object, **options: object) -> MMLogger:
        """Build the logger."""
        logger = super().build_logger(*args, **options)
        for handler in logger.handlers:
            if not isinstance(handler, logging.FileHandler):
                handler.addFilter(_is_news)
        return logger

    def dump_config(self) -> None:
        """Write the whole config into the work dir, but not over the file that was read."""
        name = self.cfg.filename
        if name and identity_of(name) == identity_of(Path(self.work_dir, Path(name).name)):
            return
        super().dump_config()

    def build_train_loop(self, *args: object) -> BaseLoop:
        """Build the training loop and its dataset; mistakes of the config are ``UserError``s."""
        with building(self.cfg):
            return super().build_train_loop(*args)

    def build_val_loop(self, *args: object) -> BaseLoop:
        """Build the loop of validation, as that of training."""
        with building(self.cfg):
            return super().build_val_loop(*args)

    def build_test_loop(self, *args: object) -> BaseLoop:
        """Build the loop of tests, as that of training."""
        with building(self.cfg):
            return super().build_test_loop(*args)

    def build_optim_wrapper(self, *args: object) -> OptimWrapper | OptimWrapperDict:
        """Build the optimizers, as the training loop."""
        with building(self.cfg):
            return super().build_optim_wrapper(*args)

    def build_param_scheduler(self, *args: object) -> list | dict[str, list]:
        """Build the schedules, as the training loop."""
        with building(self.cfg):
            return super().build_param_scheduler(*args)


def _is_news(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if record.levelno <= logging.INFO:
        return "\n" not in text.strip()
    return record.levelno > logging.WARNING or "deprecated" not in text
