"""A shipped config made ready for one's own labelled videos."""

from mmvidformer.finetune.recipe import Recipe, apply_recipe
from mmvidformer.finetune.weights import start_from

__all__ = ["Recipe", "apply_recipe", "start_from"]
