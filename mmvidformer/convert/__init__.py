"""Weights of other projects under our names, and back."""

from mmvidformer.convert.detect import FORMATS, read_model, recognise
from mmvidformer.convert.image_vit import init_from_image
from mmvidformer.convert.io import load_checkpoint, save_checkpoint

__all__ = [
    "FORMATS",
    "init_from_image",
    "load_checkpoint",
    "read_model",
    "recognise",
    "save_checkpoint",
]
