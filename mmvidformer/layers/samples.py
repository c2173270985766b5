"""What heads read and write for each video: data samples, and found segments and boxes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Sample = Any  # ``DataSample``, or MMAction2's ``ActionDataSample``, which has its attributes
Samples = list[Sample]


class DataSample:
    """What is known about a video, and what a head predicts: attributes by name.

    It has what this package uses of MMAction2's ``ActionDataSample``, which training has.
    """

    def __init__(self, metainfo: Mapping[str, Any] | None = None, **data: Any) -> None:
        vars(self).update(metainfo or {}, **data)

    def set_metainfo(self, metainfo: Mapping[str, Any]) -> None:
        """Add facts about the video."""
        vars(self).update(metainfo)

    def set_gt_label(self, value: Any) -> "DataSample":
        """Set the class, or the classes, of the video."""
        self.gt_label = torch.as_tensor(value).reshape(-1).long()
        return self

    def set_pred_label(self, value: Tensor) -> "DataSample":
        """Set the predicted class."""
        self.pred_label = value
        return self

    def set_pred_score(self, value: Any) -> "DataSample":
        """Set the predicted scores, or those of each task by its name."""
        self.pred_score = value
        return self

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return vars(self).get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in vars(self)

    def to(self, device: Any) -> "DataSample":
        """Return a sample whose tensors are on a device."""
        moved = {name: _moved(value, device) for name, value in vars(self).items()}
        return type(self)(**moved)


class Instances(dict[str, Tensor]):
    """What was found in a video: tensors by name, with a row for each; attributes, too.

    Its length is the number of rows.
    """

    def __len__(self) -> int:
        return len(next(iter(self.values()), ()))

    def __getattr__(self, name: str) -> Tensor:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Tensor) -> None:
        self[name] = value

    def select(self, rows: Tensor | slice) -> "Instances":
        """Return some of the rows."""
        return Instances({name: values[rows] for name, values in self.items()})


def _moved(value: Any, device: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Instances):
        return Instances({name: part.to(device) for name, part in value.items()})
    return value
