"""Motion that a video file holds: the vectors by which its codec predicts blocks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from av import VideoFrame
from torch.nn.functional import adaptive_avg_pool2d

from mmvidformer.video.containers import decode_frames, open_container, video_stream
from mmvidformer.video.facts import require_frame
from mmvidformer.video.orientation import orientation_of

CELL = 4  # pixels of a side of the smallest blocks of H.264


def measure_motion(
    path: str | Path, numbers: Sequence[int], size: tuple[int, int], steady: bool = False
) -> np.ndarray:
    """Return how far the blocks of frames moved since the frame before in a list.

    Only codecs that predict blocks have vectors, and FFmpeg tells those of H.264 and MPEG-4, not of
    HEVC or AV1; blocks without one, as all of a key frame, count as still. The file is decoded from
    its beginning.

    Args:
        path: A video file.
        numbers: Numbers of frames, increasing.
        size: Height H and width W of the grid of tokens of an upright frame.
        steady: Whether the median vector of a frame is subtracted first, that of a moving camera.

    Returns:
        Lengths in pixels (T, H, W), summed over the frames in between and averaged over places.

    Raises:
        BadVideo: If the file cannot be decoded, or has no such frame.
    """
    container = open_container(path)
    wanted, count, maps = {*numbers}, 0, []
    total: np.ndarray | float = 0.0
    with container:
        codec = video_stream(container).codec_context
        codec.options = {**codec.options, "flags2": "+export_mvs"}
        for number, frame in enumerate(decode_frames(container, str(path))):
            total, count = total + _lengths(frame, steady), number + 1
            if number in wanted:
                upright = np.ascontiguousarray(orientation_of(frame).apply(total))
                maps.append(adaptive_avg_pool2d(torch.from_numpy(upright)[None], size)[0])
                total = 0.0
            if count > numbers[-1]:
                break
    require_frame(str(path), numbers[-1], count, "the list of frames")
    return torch.stack(maps).numpy()


def _lengths(frame: VideoFrame, steady: bool) -> np.ndarray:
    """Return the lengths of the vectors of a stored frame, of each cell."""
    lengths = np.zeros((-(-frame.height // CELL), -(-frame.width // CELL)), np.float32)
    vectors = frame.side_data.get("MOTION_VECTORS")
    if vectors is None:
        return lengths
    rows = vectors.to_ndarray()
    moves = np.stack([rows["motion_x"], rows["motion_y"]], axis=1) / rows["motion_scale"][:, None]
    if steady:
        moves -= np.median(moves, axis=0)
    values = np.hypot(*moves.T).astype(np.float32)
    tops = (rows["dst_y"].astype(int) - rows["h"] // 2) // CELL
    lefts = (rows["dst_x"].astype(int) - rows["w"] // 2) // CELL
    for down in range(rows["h"].max() // CELL):
        for right in range(rows["w"].max() // CELL):
            y, x = tops + down, lefts + right
            covered = (down < rows["h"] // CELL) & (right < rows["w"] // CELL) & (y >= 0) & (x >= 0)
            covered &= (y < lengths.shape[0]) & (x < lengths.shape[1])
            # The larger one, of a block that has two sources.
            np.maximum.at(lengths, (y[covered], x[covered]), values[covered])
    return lengths
