"""Attention kernels: how grouped queries, keys and values become an output.

========================  ==========================================================  ===========
name                      weight of key j for query i, before normalization           cost
========================  ==========================================================  ===========
softmax                   ``exp(q_i.k_j / sqrt(d))``                                  S S' d
recurrence                decays along the way from j to i, by gates of all steps     S d^2
capped                    ``exp(c tanh(q_i.k_j / (c sqrt(d))))``                      S S' d
linear                    ``f(q_i).f(k_j)``, f ReLU, ELU + 1, sigmoid, identity       S d^2
cosformer                 ``relu(q_i).relu(k_j) cos(pi/2 (i - j) / M)``               2 S d^2
performer                 softmax in expectation, m random features                   S m d
linformer                 softmax over R learned mixtures of the keys                 S R d
orthoformer               softmax through R landmarks among the queries               S R d
lara                      softmax by importance sampling, R proposals                 S R d
========================  ==========================================================  ===========
"""

from mmvidformer.layers.kernels.base import Kernel
from mmvidformer.layers.kernels.capped import CappedKernel
from mmvidformer.layers.kernels.lara import LaraKernel
from mmvidformer.layers.kernels.linear import CosformerKernel, LinearKernel
from mmvidformer.layers.kernels.linformer import LinformerKernel
from mmvidformer.layers.kernels.orthoformer import OrthoformerKernel
from mmvidformer.layers.kernels.performer import PerformerKernel
from mmvidformer.layers.kernels.recurrence import GatedRecurrenceKernel
from mmvidformer.layers.kernels.softmax import SoftmaxKernel
from mmvidformer.lookup import Registry

KERNELS: Registry[Kernel] = Registry(
    "attention kernel",
    {
        "softmax": SoftmaxKernel,
        "linear": LinearKernel,
        "cosformer": CosformerKernel,
        "performer": PerformerKernel,
        "linformer": LinformerKernel,
        "orthoformer": OrthoformerKernel,
        "lara": LaraKernel,
        "capped": CappedKernel,
        "recurrence": GatedRecurrenceKernel,
    },
    Kernel,
)
