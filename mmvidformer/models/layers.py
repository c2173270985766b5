"""Registers the pure-torch layers, so that a config of any MM project can name them."""

from mmvidformer import layers
from mmvidformer.registry import MODELS

for _layer in (
    layers.Attention,
    layers.Mlp,
    layers.PositionEmbedding,
    layers.TransformerBlock,
    layers.TubeletEmbedding,
):
    MODELS.register_module(module=_layer)
