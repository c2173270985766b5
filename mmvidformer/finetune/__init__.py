"""Shipped configs adapted to your labeled videos."""

from mmvidformer.finetune.checkpoint_config import config_of_checkpoint
from mmvidformer.finetune.recipe import Recipe, apply_recipe

__all__ = ["Recipe", "apply_recipe", "config_of_checkpoint"]
