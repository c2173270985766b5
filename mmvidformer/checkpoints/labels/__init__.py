"""Class names of public datasets: one text file per dataset, one name per line.

The order is that of the label maps of MMAction2 (Apache-2.0), which its annotation lists follow.
Configs name a file as ``labels://kinetics400``, in any place where MMEngine reads a text file.
"""

from pathlib import Path

from mmvidformer.lookup import look_up

FOLDER = Path(__file__).parent
PREFIX = "labels://"


def read_labels(name: str) -> list[str]:
    """Read the class names of a dataset, such as ``'kinetics400'``.

    Raises:
        KeyError: If there is no such dataset.
    """
    stems = [path.stem for path in FOLDER.glob("*.txt")]
    name = look_up(stems, name.removeprefix(PREFIX), "list of class names")
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()
