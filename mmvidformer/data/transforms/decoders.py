"""Which transforms decode what another one opens."""

import mmvidformer.repairs  # noqa: F401  isort: skip  (repairs MMAction2 first)

from collections.abc import Sequence

from mmaction.datasets.transforms import (
    DecordDecode,
    DecordInit,
    OpenCVDecode,
    OpenCVInit,
    PIMSDecode,
    PIMSInit,
    PyAVDecode,
    PyAVDecodeMotionVector,
    PyAVInit,
)

from mmvidformer.data.transforms.decode import VideoDecode, VideoInit
from mmvidformer.errors import UserError

# Transforms that decode what another one opens, the first of them by preference.
DECODERS: dict[type, tuple[type, ...]] = {
    VideoInit: (VideoDecode, DecordDecode),
    DecordInit: (DecordDecode, VideoDecode),
    PyAVInit: (PyAVDecode, PyAVDecodeMotionVector),
    OpenCVInit: (OpenCVDecode,),
    PIMSInit: (PIMSDecode,),
}


def check_decoders(transforms: Sequence[object]) -> None:
    """Check that the transforms of a pipeline decode what those before them open.

    Transforms of other projects, also subclasses, may open and decode anything.

    Raises:
        UserError: If one cannot; names both, and the right one.
    """
    known = {decoder for decoders in DECODERS.values() for decoder in decoders}
    opener: object = None
    for transform in transforms:
        if type(transform) in DECODERS:
            opener = transform
        if opener is None or type(transform) not in known:
            continue
        decoders = DECODERS[type(opener)]
        name, fits = type(transform).__name__, type(transform) in decoders
        own_reader = isinstance(opener, VideoInit) and opener.backend != "decord"
        if fits and own_reader and getattr(transform, "mode", "accurate") != "accurate":
            name, fits = f"{name}(mode={transform.mode!r})", False
        if not fits:
            what = f"{name} cannot decode what {type(opener).__name__} opens"
            raise UserError(f"{what}; use {decoders[0].__name__}()")
