"""A dataset of random numbers, which dataloader workers can import."""

import ctypes
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


class Stuck(Draws):
    """Sample 4 sleeps in native code that keeps the interpreter's lock."""

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == 4:
            ctypes.PyDLL(None).sleep(600)
        return super().__getitem__(index)
