"""The core: a clip is a grid of tokens, an attention step is a view and a kernel.

Pure PyTorch and einops; nothing here needs a config, a registry or the MM stack.
"""

from mmvidformer.layers.attention import Attention
from mmvidformer.layers.block import AttentionStep, Step, TransformerBlock
from mmvidformer.layers.drop import DropPath, drop_path_ramp
from mmvidformer.layers.embed import PositionEmbedding, TubeletEmbedding
from mmvidformer.layers.encoder import Encoder
from mmvidformer.layers.init import init_flax_vit, init_timm_vit
from mmvidformer.layers.kernels import KERNELS, SoftmaxKernel, build_kernel
from mmvidformer.layers.mlp import Mlp
from mmvidformer.layers.resize import resize_positions
from mmvidformer.layers.views import VIEWS, View, get_view

__all__ = [
    "KERNELS",
    "VIEWS",
    "Attention",
    "AttentionStep",
    "DropPath",
    "Encoder",
    "Mlp",
    "PositionEmbedding",
    "SoftmaxKernel",
    "Step",
    "TransformerBlock",
    "TubeletEmbedding",
    "View",
    "build_kernel",
    "drop_path_ramp",
    "get_view",
    "init_flax_vit",
    "init_timm_vit",
    "resize_positions",
]
