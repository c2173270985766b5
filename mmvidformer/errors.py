"""The error of a user's mistake, below all rooms."""

import errno

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # of a full disk, which names no file


class UserError(ValueError):
    """Its message says all that a user needs: the tools print it without traceback, at any time.

    All else that is raised is a bug and keeps its traceback, but errors of the system that name a
    file.
    """


class MissingFile(FileNotFoundError, UserError):
    """A file or folder that is needed is not there, or has nothing in it."""


class FileThere(FileExistsError, UserError):
    """A file is there that must not be written over."""


class CannotWrite(OSError, UserError):
    """A file cannot be written, such as on a full disk; made of number, reason and file."""


class MissingPackage(ImportError, UserError):
    """A package is needed that is not installed."""


class LostProcess(ChildProcessError, UserError):
    """A process ended before it did its work, such as for want of memory."""


class UnknownName(UserError, KeyError):
    """A name that a table does not have, or has already."""

    __str__ = Exception.__str__  # that of a ``KeyError`` is in quotes


def is_of_system(error: Exception) -> bool:
    """Whether an error is one of the system: of a file that it names, or of a full disk."""
    return isinstance(error, OSError) and (error.filename is not None or error.errno in FULL)
