"""Pictures: attention, predictions, features, test scores and training curves.

Attention rollout can be imported from here, the rest from its modules.
"""

from mmvidformer.visualization.attention_rollout import Rollout, rollout

__all__ = ["Rollout", "rollout"]
