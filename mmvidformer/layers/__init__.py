"""Layers of the video transformers, in plain PyTorch and einops.

A clip is a grid of tokens; an attention sub-layer combines patterns (who attends to whom) with a
kernel (how).
"""

from mmvidformer.layers.attention import Attention
from mmvidformer.layers.block import AttentionSubLayer, TransformerBlock
from mmvidformer.layers.config import EncoderConfig, SubLayer
from mmvidformer.layers.drop import DropPath
from mmvidformer.layers.embed import STEMS, TubeletEmbedding
from mmvidformer.layers.encoder import Encoder
from mmvidformer.layers.fixation import FIXATIONS, Fixation
from mmvidformer.layers.init import INITS, init_flax_vit, init_timm_vit
from mmvidformer.layers.kernels import KERNELS, Kernel
from mmvidformer.layers.mlp import MLPS, Mlp
from mmvidformer.layers.norm import NORMS, LayerScale
from mmvidformer.layers.patterns import PATTERNS, Pattern
from mmvidformer.layers.pooling import POOLINGS, AttentivePooling
from mmvidformer.layers.positions import POSITIONS, PositionEmbedding, Positions
from mmvidformer.layers.resize import resize_positions
from mmvidformer.layers.rotary import ROPES, RotaryEmbedding, RotaryPositions
from mmvidformer.layers.shift import SHIFTS, build_shift
from mmvidformer.layers.stem import Stem
from mmvidformer.layers.tokens import Context, Grid, Places, pool_tokens
