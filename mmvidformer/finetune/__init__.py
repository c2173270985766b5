"""Shipped configs adapted to your videos, with labels or without."""

from mmvidformer.finetune.pretraining import Pretraining, apply_pretraining
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.settings import Recipe

__all__ = ["Pretraining", "Recipe", "apply_pretraining", "apply_recipe"]
