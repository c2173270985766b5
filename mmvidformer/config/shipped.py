"""Where the shipped configs are."""

from pathlib import Path

from mmvidformer.errors import MissingFile

PACKAGE = Path(__file__).resolve().parents[1]


def config_folder() -> Path:
    """Return the folder of the shipped configs: in the package, or beside it in a checkout.

    Raises:
        FileNotFoundError: If there is neither.
    """
    for folder in (PACKAGE / ".mim" / "configs", PACKAGE.parent / "configs"):
        if folder.is_dir():
            return folder
    raise MissingFile(f"{PACKAGE} has no configs; install the wheel, or use pip install -e")
