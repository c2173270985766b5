"""Readers of video files, and the guard against bad ones."""
