"""The names of tasks, which can be told without importing the tasks."""

DEFAULT_NAME = "classes"
# What papers call each task: further names of it on the command line.
FIELD_NAMES = {
    DEFAULT_NAME: ("video-classification", "action-recognition"),
    "labels": ("multi-label-classification",),
    "number": ("regression",),
    "frames": ("action-segmentation", "temporal-action-segmentation"),
    "segments": ("temporal-action-localization", "temporal-action-detection"),
    "boxes": ("action-detection", "spatio-temporal-action-detection"),
    "moments": ("event-spotting", "action-spotting"),
}
# Methods of ``finetune`` that fit classifiers of the default task on features.
PROBES = ("temporal", "attentive", "linear", "knn")


def describe_tasks() -> str:
    """Return the names of all tasks, each with what papers call it, for the help of commands."""
    return ", ".join(f"{name} ({', '.join(names)})" for name, names in FIELD_NAMES.items())
