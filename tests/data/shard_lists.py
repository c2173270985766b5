"""Lists of all tasks, and what compares their samples."""

import numpy as np
import torch

from tests.video.toys import PACK

PIPELINE = [
    dict(type="mmvidformer.VideoInit"),
    dict(type="SampleFrames", clip_len=4, frame_interval=2),
    dict(type="mmvidformer.VideoDecode"),
    *PACK,
]
NAMES = ["red", "green", "dark blue"]
LISTS = {  # lines for three videos, and options of the dataset that reads them
    "classes": ("txt", ["{} 0", "{} 2", "{} 1"], dict(type="VideoDataset")),
    "labels": (
        "txt",
        ["{} 0", "{}", "{} 1 2"],
        dict(type="VideoDataset", multi_class=True, num_classes=3),
    ),
    "number": (
        "csv",
        ["video,level,size", "{},0.1,3", "{},2,4", "{},1e-7,5"],
        dict(type="mmvidformer.ValueDataset"),
    ),
    "frames": (
        "csv",
        ["video,start,end,label", "{},0.1,0.2,red", "{},0,0.3,green", "{},,,"],
        dict(type="mmvidformer.SpanDataset"),
    ),
    "segments": (
        "csv",
        ["video,start,end,label", "{},0.1,0.2,red", "{},0,0.3,green", "{},,,"],
        dict(type="mmvidformer.SpanDataset", overlap=True),
    ),
    "boxes": (
        "csv",
        ["{},0,0.1,0.2,0.5,0.6,1", "{},1,0,0,1,1,3", "{},0,0.25,0.1,0.9,0.8,2"],
        dict(type="mmvidformer.BoxDataset"),
    ),
}


def read(dataset, number):
    torch.manual_seed(number)
    np.random.seed(number)
    return dataset[number]


def assert_equal(one, other):
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype and torch.equal(one, other)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_equal(one[key], other[key])
    else:
        assert one == other
