"""Transforms that MMAction2 lacks, or that are broken in it today."""
