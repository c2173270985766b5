"""Patterns with masks and options, and small attention with them."""

import torch

from mmvidformer.layers import Attention

DIM, HEADS = 8, 2
SPECS = {
    "window": {"type": "window", "size": (2, 3, 2)},
    "shifted": {"type": "window", "size": (2, 3, 2), "shift": (1, 2, 1)},
    "shifted in height": {"type": "window", "size": (2, 3, 2), "shift": (0, 1, 0)},
    "frames": {"type": "window", "size": (2, 9, 9)},
    "places": {"type": "window", "size": (3, 1, 1)},
    "causal_time": {"type": "causal_time"},
    "causal_joint": {"type": "causal_joint"},
    "causal_time, past 2": {"type": "causal_time", "past": 2},
    "causal_time, past 3": {"type": "causal_time", "past": 3},
    "causal_joint, past 2": {"type": "causal_joint", "past": 2},
    "causal_joint, past 9": {"type": "causal_joint", "past": 9},
}


def build(spec: dict, cls: str = "skip", kernel: str = "softmax") -> Attention:
    torch.manual_seed(0)
    return Attention(DIM, HEADS, patterns=[spec], cls=cls, kernel=kernel).double()
