"""Generated clips of a moving camera, whose path is known."""
