"""MMEngine 0.10 resolves ``package::config`` only for its own projects.

Symptoms: ``AssertionError: mmengine does not support to load mmvidformer config`` for any other
package; ``ValueError`` for a config that is in no subfolder; and with editable installs (PEP 660)
the config is looked for in site-packages.
"""

from functools import cache, partial
from pathlib import Path

PACKAGE = "mmvidformer"
ROOT = Path(__file__).resolve().parents[1]


def config_folder() -> Path:
    """Return the folder of the shipped configs: in the package, or beside it in a checkout.

    Raises:
        FileNotFoundError: If there is neither.
    """
    for folder in (ROOT / ".mim" / "configs", ROOT.parent / "configs"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{ROOT} has no configs; install the wheel, or use pip install -e")


def repair() -> None:
    """Register the name, and resolve ``mmvidformer::name`` here."""
    from mmengine.config import Config
    from mmengine.config.utils import MODULE2PACKAGE

    MODULE2PACKAGE[PACKAGE] = PACKAGE
    original = Config._get_cfg_path
    of_other = cache(partial(original, filename=""))  # reads metafiles each time

    def get_cfg_path(cfg_path: str, filename: str) -> tuple[str, str | None]:
        scope, separator, name = cfg_path.partition("::")
        if not separator:
            return original(cfg_path, filename)
        if scope != PACKAGE:
            return of_other(cfg_path)
        path = config_folder() / name
        if not path.is_file():
            raise FileNotFoundError(f"{cfg_path} (in {filename}): there is no {path}")
        return str(path), scope

    Config._get_cfg_path = staticmethod(get_cfg_path)
