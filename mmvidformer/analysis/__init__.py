"""Size and memory of the models in configs."""
