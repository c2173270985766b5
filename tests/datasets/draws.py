"""A dataset of random numbers, which dataloader workers can import."""

import random

import numpy as np
import torch


class Draws:
    """A draw of each generator that transforms use."""

    metainfo: dict = {}

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([random.random(), np.random.rand(), torch.rand(()).item()])
