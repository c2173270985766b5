"""TimeSformer's figure 3: what joint and divided attention cost as clips grow."""

from mmengine.config import Config
from tqdm import tqdm

from mmvidformer.analysis.complexity import count

SCHEMES = ("joint_space_time", "divided_space_time")
CROPS = (224, 336, 448, 560, 672)  # pixels, of 8 frames
FRAMES = (8, 32, 64, 96)  # of 224 x 224 pixels


def count_timesformer(attention: str, clip_len: int, img_size: int) -> int:
    """Multiply-accumulates of one view through TimeSformer-B, with 400 classes.

    Args:
        attention: A name of TimeSformer's schemes.
        clip_len: Frames.
        img_size: Side of the crop in pixels.
    """
    backbone = dict(
        type="mmvidformer.TimeSformer",
        attention=attention,
        clip_len=clip_len,
        img_size=img_size,
    )
    head = dict(type="TimeSformerHead", num_classes=400, in_channels=768)
    cfg = Config({"model": {"backbone": backbone, "cls_head": head}})
    return count(cfg, (3, clip_len, img_size, img_size)).macs


def count_curves() -> dict[str, dict[str, dict[int, int]]]:
    """Count both panels of the figure.

    Returns:
        ``'crop'`` and ``'frames'``: for each scheme the multiply-accumulates by size.
    """
    planned = [("crop", scheme, size, (8, size)) for scheme in SCHEMES for size in CROPS]
    planned += [("frames", scheme, n, (n, 224)) for scheme in SCHEMES for n in FRAMES]
    curves: dict[str, dict[str, dict[int, int]]] = {}
    for axis, scheme, size, view in tqdm(planned, unit="model", disable=None):
        panel = curves.setdefault(axis, {s: {} for s in SCHEMES})
        panel[scheme][size] = count_timesformer(scheme, *view)
    return curves
