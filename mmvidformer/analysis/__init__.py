"""Sizes, memory and loading times of what configs describe."""

from mmvidformer.analysis.complexity import Complexity, count
from mmvidformer.analysis.published import PUBLISHED, Published

__all__ = ["PUBLISHED", "Complexity", "Published", "count"]
