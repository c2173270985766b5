"""What models predict: annotations, lists, samplers and metrics of each task."""

from mmvidformer import registry  # noqa: F401  (repairs MMAction2 first)
