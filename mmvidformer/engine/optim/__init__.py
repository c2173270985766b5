"""Optimizers, learning rates per layer, and mixed precision."""
