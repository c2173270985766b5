"""Counts that tables are made of."""

from mmvidformer.analysis.complexity import Complexity, count, recurrent
from mmvidformer.analysis.published import PUBLISHED, Published

__all__ = ["PUBLISHED", "Complexity", "Published", "count", "recurrent"]
