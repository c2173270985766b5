"""The readers of video files by name."""

from mmvidformer.video.pyav_reader import PyAVReader
from mmvidformer.video.reader import Reader
from mmvidformer.video.torchcodec_reader import TorchCodecReader

READERS: dict[str, type[Reader]] = {"pyav": PyAVReader, "torchcodec": TorchCodecReader}
# Of ``VideoInit``, the default first. MMAction2's own transforms read with decord.
BACKENDS = (*READERS, "decord")
