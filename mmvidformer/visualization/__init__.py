"""Pictures: attention rollout on videos, t-SNE of features, cost curves."""
