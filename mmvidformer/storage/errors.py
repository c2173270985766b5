from collections.abc import Iterator
from contextlib import contextmanager

from mmvidformer.errors import UserError


class StorageError(OSError, UserError):
    """Storage that does not answer, after some tries. It is not the fault of the file."""


@contextmanager
def refuse(message: str, with_reason: bool = False) -> Iterator[None]:
    """Raise a ``UserError`` for what damaged content raises, or such of another type.

    Errors of the system stay. ``with_reason`` adds the text of the error.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or getattr(error, "errno", None):
            raise
        raise UserError(f"{message}: {error}" if with_reason else message) from error
