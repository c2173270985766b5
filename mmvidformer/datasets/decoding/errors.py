"""What is wrong with a file of a dataset."""


class TooManyBadVideos(RuntimeError):
    """More bad videos than are allowed."""

    for_user = True  # see engine.launch.run_tool


class BadVideo(Exception):
    """A video that cannot be used.

    Args:
        path: The file.
        reason: What is wrong with it, in words.
    """

    for_user = True

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = str(path), reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"
