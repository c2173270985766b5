"""Annotation readers, transforms, and the motion datasets that the package generates."""

from mmvidformer import registry  # noqa: F401  (repairs MMAction2 first)
