"""The names of formats of annotations, which can be told without importing what reads them."""

# Each is a module of ``importers``, which are asked in this order whether they recognize a file.
FORMATS = (
    "activitynet",
    "cvat",
    "coco",
    "label-studio",
    "via",
    "ava",
    "kinetics",
    "something-something",
    "spotting",
    "epic-kitchens",
    "charades",
    "huggingface",
    "boris",
    "boris-events",
    "elan",
    "mmaction2",
    "action-lists",
    "folder",
    "class-folders",
)
