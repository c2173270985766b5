"""Tasks other than one class a video: their annotations, lists, samplers and metrics."""

from mmvidformer import registry  # noqa: F401  (repairs MMAction2 first)
