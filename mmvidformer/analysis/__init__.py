"""Size and memory of the models in configs."""

from mmvidformer.analysis.complexity import Complexity, count
from mmvidformer.analysis.published import PUBLISHED, Published

__all__ = ["PUBLISHED", "Complexity", "Published", "count"]
