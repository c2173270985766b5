class UserError(Exception):
    """Its message says all that a user needs: the tools print it without traceback, at any time.

    Errors of any room that are raised while a runner runs are subclasses, and of a builtin class
    as well.
    """


class StorageError(UserError, OSError):
    """Storage that does not answer, after some tries. It is not the fault of the file."""
