from mmvidformer.errors import UserError


class StorageError(OSError, UserError):
    """Storage that does not answer, after some tries. It is not the fault of the file."""
