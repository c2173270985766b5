"""MMEngine 0.10 can run code that a checkpoint contains.

Symptom: two ways around ``weights_only``. ``Runner.resume`` executes the text under
``meta['config']`` as a Python config (MMEngine itself never writes this key; MMCV 1 did), and
``CheckpointLoader`` reads weights from a URL by ``torch.hub`` with ``weights_only=False``. There is
no upstream report yet. The repair drops the text, reads downloads safely, and explains why a file
is refused. It also refuses checkpoints of ``SaveTrainedHook``, of which MMEngine would load a part.
"""

import logging
from collections.abc import Mapping, MutableMapping
from functools import partial

from mmvidformer.checkpoints.partial import BASE, is_partial
from mmvidformer.checkpoints.reading import refuse_code
from mmvidformer.checkpoints.training_state import allow_training_state
from mmvidformer.errors import UserError


def make_safe() -> None:
    """Change ``CheckpointLoader``, which reads MMEngine's own checkpoints safely, too."""
    from mmengine.logging import print_log
    from mmengine.runner import checkpoint

    allow_training_state()
    loader = checkpoint.CheckpointLoader
    checkpoint.load_url = partial(checkpoint.load_url, weights_only=True)
    load = loader.load_checkpoint.__func__

    def load_checkpoint(cls, filename, map_location=None, logger="current"):
        with refuse_code(filename):
            content = load(cls, filename, map_location, logger)
        base = content[BASE] if is_partial(content) else None
        if isinstance(base, Mapping) and "sha256" in base:
            raise UserError(
                f"{filename} holds only what was trained; mmvidformer convert {filename} WHOLE.pth "
                "writes all weights"
            )
        meta = content.get("meta") if isinstance(content, MutableMapping) else None
        if isinstance(meta, MutableMapping) and meta.pop("config", None) is not None:
            what = "ignored the text under meta['config'], which MMEngine would execute"
            print_log(f"{filename}: {what}", logger=logger, level=logging.WARNING)
        return content

    loader.load_checkpoint = classmethod(load_checkpoint)
