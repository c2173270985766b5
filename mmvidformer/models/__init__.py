"""Backbones, heads and the registration of the layers."""

from mmvidformer.models import layers
from mmvidformer.models.timesformer import TimeSformer
from mmvidformer.models.vivit import ViViT

__all__ = ["TimeSformer", "ViViT", "layers"]
