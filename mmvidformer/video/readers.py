"""The readers of video files by name."""

from typing import BinaryIO

from mmvidformer.video.index import Index, index_of
from mmvidformer.video.pyav_reader import PyAVReader
from mmvidformer.video.reader import Reader
from mmvidformer.video.torchcodec_reader import TorchCodecReader

READERS: dict[str, type[Reader]] = {"pyav": PyAVReader, "torchcodec": TorchCodecReader}


def open_reader(
    source: str | BinaryIO,
    backend: str,
    num_threads: int = 1,
    max_pixels: int | None = None,
    index: Index | None = None,
    device: str = "cpu",
) -> Reader:
    """Open a file, with PyAV where the backend might return wrong frames of it.

    The arguments are those of ``Video.open``.
    """
    if READERS[backend] is PyAVReader:
        return PyAVReader(source, num_threads, max_pixels, index)
    if index is None:
        index = index_of(source, max_pixels)
    reader = TorchCodecReader.try_open(source, index, num_threads, max_pixels, device)
    return reader or PyAVReader(source, num_threads, max_pixels, index)
