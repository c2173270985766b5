"""Attention kernels: how grouped queries, keys and values become an output.

========================  ==========================================================  ===========
name                      weight of key j for query i, before normalization           cost
========================  ==========================================================  ===========
softmax                   ``exp(q_i.k_j / sqrt(d))``                                  S S' d
recurrence                decays along the way from j to i, by gates of all steps     S d^2
capped                    ``exp(c tanh(q_i.k_j / (c sqrt(d))))``                      S S' d
linear                    ``f(q_i).f(k_j)``, f ReLU, ELU + 1, sigmoid, identity       S d^2
========================  ==========================================================  ===========
"""

from mmvidformer.layers.kernels.base import Kernel
from mmvidformer.layers.kernels.capped import CappedKernel
from mmvidformer.layers.kernels.linear import LinearKernel
from mmvidformer.layers.kernels.recurrence import GatedRecurrenceKernel
from mmvidformer.layers.kernels.softmax import SoftmaxKernel
from mmvidformer.lookup import Registry

KERNELS: Registry[Kernel] = Registry(
    "attention kernel",
    {
        "softmax": SoftmaxKernel,
        "linear": LinearKernel,
        "capped": CappedKernel,
        "recurrence": GatedRecurrenceKernel,
    },
    Kernel,
)
