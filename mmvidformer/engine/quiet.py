import logging

from mmengine.logging import MMLogger
from mmengine.runner import Runner

from mmvidformer.registry import RUNNERS


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


def _is_news(record: logging.LogRecord) -> bool:
    text = record.getMessage()
    if record.levelno <= logging.INFO:
        return "\n" not in text.strip()
    return record.levelno > logging.WARNING or "deprecated" not in text
