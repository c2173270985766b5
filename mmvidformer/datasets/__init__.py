"""Annotation readers, transforms, and the motion datasets that the package generates."""
