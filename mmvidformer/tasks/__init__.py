"""What models predict: annotations, lists, samplers and metrics of each task."""
