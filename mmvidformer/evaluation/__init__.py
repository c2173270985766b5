"""Metrics that MMAction2 lacks."""
