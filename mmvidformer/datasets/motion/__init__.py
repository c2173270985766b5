"""Generated videos whose class is a motion."""
