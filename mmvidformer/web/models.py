"""The models that the page and the server offer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmvidformer.apis import Recognizer
from mmvidformer.apis.detector import load_detector
from mmvidformer.apis.factory import find_model
from mmvidformer.checkpoints import published
from mmvidformer.checkpoints.download import fetch, is_address, is_cached
from mmvidformer.config import is_recurrent
from mmvidformer.engine.model_options import NamedModelOptions
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.errors import UserError
from mmvidformer.web.limits import MAX_PIXELS

YOUR_MODEL = "own"  # beside the names of published models


@dataclass(frozen=True)
class Model(NamedModelOptions):
    """A model that is offered.

    Attributes:
        clips: Number of clips that are read of a video; None: the views of the test pipeline.
    """

    clips: int | None = 1

    def load(self) -> Recognizer:
        """Load the model, whose weights must be here.

        Raises:
            UserError: If the weights are those of an address that was not fetched.
        """
        source = self.checkpoint or self.config
        if isinstance(source, str) and not is_cached(source):
            raise UserError(f"the weights of {source} are not in the cache; start again")
        cfg, checkpoint = find_model(self.config, self.checkpoint, self.cfg_options)
        set_video_backend(cfg, "pyav", max_pixels=MAX_PIXELS)
        clips = None if is_recurrent(cfg) else self.clips
        recognizer = Recognizer(cfg, checkpoint, self.device, self.classes, clips, **self.inexact)
        if recognizer.task.needs_boxes:
            load_detector(recognizer.device)
        return recognizer


def fetch_models(names: Sequence[str], yours: Model) -> dict[str, Model]:
    """Fetch the weights of models, and return the models by name.

    Args:
        names: Published checkpoints; or folders or addresses whose config is found, which are
            called by the last part of their path.
        yours: A model with a config of its own, called ``YOUR_MODEL``, if it has one; else what
            all models have in common.

    Raises:
        UserError: If one has no classes, or two have one name.
    """
    models: dict[str, Model] = {}
    if yours.config:
        _, weights = find_model(yours.config, yours.checkpoint, yours.cfg_options)
        models[YOUR_MODEL] = replace(yours, checkpoint=weights)
    for name in names:
        source, called = name, Path(name.rstrip("/")).name
        if not is_address(name) and not Path(name, "config.json").is_file():
            row = published.row_of(published.PREFIX + name)
            if not row.config:
                raise UserError(f"{row.name} has no classes, so it cannot be offered")
            source, called = published.PREFIX + row.name, row.name
        if called in models:
            raise UserError(f"two models are called {called}; rename a folder")
        fetch(source)
        models[called] = Model(config=source, device=yours.device, clips=yours.clips)
    return models


def models_here(device: str | None) -> dict[str, Model]:
    """Return the published models whose weights are on this machine."""
    addresses = {row.name: published.PREFIX + row.name for row in published.rows() if row.config}
    here = {name: address for name, address in addresses.items() if is_cached(address)}
    return {name: Model(config=address, device=device) for name, address in here.items()}
