"""MMEngine 0.10 formats the text of a config anew for each who asks.

Symptom: yapf takes 0.2 s four times as a run starts, and for each checkpoint, for one text.
"""

from typing import Any

from mmengine.config import config


def repair() -> None:
    """Keep the last text."""
    format_code, last = config.FormatCode, ("", ("", False))

    def format_once(text: str, **options: Any) -> tuple[str, bool]:
        nonlocal last
        kept = last  # of this thread
        if text != kept[0]:
            kept = last = text, format_code(text, **options)
        return kept[1]

    config.FormatCode = format_once
