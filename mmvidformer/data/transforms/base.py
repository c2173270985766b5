"""The form of transforms: functions from a sample, a dictionary, to another one."""

from abc import ABC, abstractmethod

from mmvidformer.video.errors import blame, path_of


class Transform(ABC):
    """A transform of samples, for MMAction2's pipelines and this package's.

    What one that reads files raises is a ``BadVideo`` (``blame``).
    """

    reads_files = False

    def __call__(self, results: dict) -> dict:
        """Transform a sample."""
        if not self.reads_files:
            return self.transform(results)
        with blame(path_of(results), type(self).__name__):
            return self.transform(results)

    @abstractmethod
    def transform(self, results: dict) -> dict:
        """Transform a sample; may change it in place."""
