"""Optimizers, learning rates per layer, mixed precision and compilation."""
