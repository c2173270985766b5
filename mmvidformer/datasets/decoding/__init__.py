"""Video readers, and the guard against bad videos."""
