from mmvidformer import registry  # noqa: F401  (repairs MMAction2 first)
