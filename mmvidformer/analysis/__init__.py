"""Size of the models in configs."""
