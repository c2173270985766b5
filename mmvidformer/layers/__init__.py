"""Layers of the video transformers, in plain PyTorch and einops.

A clip is a grid of tokens; an attention sub-layer combines patterns (who attends to whom) with a
kernel (how). The words:

==========  ====================================================================================
tubelet     box of pixels, frames x rows x columns, that becomes a token
stem        what makes tokens of a clip: an embedding of tubelets, or convolutions
grid        the order of tokens: T frames, H rows and W columns, after a prefix
place       a token of the grid, or where it is
prefix      tokens without a place, before the others: the class token and registers
role        what a sub-layer does with the prefix: ``cls`` of ``layers.config``
pattern     which tokens attend to which; it sorts places into groups
group       tokens that attend to each other, a sequence of its own
kernel      how queries, keys and values of a group become an output
stage       what changes queries, keys and values before: norm, shift, feature map, gate, rotation
sub-layer   norm, attention and a residual connection
block       sub-layers, then an MLP
encoder     positions, blocks and a norm
context     what travels with tokens: their grid, and the next two
kept        the places that are computed, if others are left out
counts      how many equal tokens one stands for; 0: it is padding
==========  ====================================================================================

What is computed stands here and in ``models``; ``models.fast`` has passes that save time.
"""

from mmvidformer.layers.attention import Attention
from mmvidformer.layers.block import AttentionSubLayer, TransformerBlock
from mmvidformer.layers.config import EncoderConfig, SubLayer
from mmvidformer.layers.drop import DropPath
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
from mmvidformer.layers.stem import STEMS, Stem, TubeletEmbedding
from mmvidformer.layers.tokens import Context, Grid, Places, pool_tokens
