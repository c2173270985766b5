"""Where parts of configs are built, and what they raise because of it."""

from collections.abc import Iterator
from contextlib import contextmanager

from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.errors import UserError, is_of_system


@contextmanager
def building(cfg: Config) -> Iterator[None]:
    """Build parts of a config, whose names are looked up in its ``default_scope``.

    What a part raises because of its arguments becomes a ``UserError``.
    """
    try:
        with DefaultScope.overwrite_default_scope(cfg.get("default_scope", "mmaction")):
            yield
    except UserError:
        raise
    except Exception as error:  # libraries have no common one for wrong arguments
        if is_of_system(error):
            raise
        text = " ".join(str(error.args[0] if len(error.args) == 1 else error).split())
        reason = f"{type(error).__name__}: {text} (MMVIDFORMER_DEBUG=1 shows the traceback)"
        raise UserError(f"{cfg.filename or 'the config'} cannot be built: {reason}") from error
