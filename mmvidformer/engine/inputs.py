"""What a run reads must be there before anything is built."""

import re
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from mmengine.config import Config, ConfigDict

from mmvidformer.checkpoints.download import is_address
from mmvidformer.checkpoints.reading import UnreadableCheckpoint, is_intact, read_mapped
from mmvidformer.config import leaf_datasets
from mmvidformer.engine.checkpointing.resume import checkpoints_in
from mmvidformer.engine.checkpointing.settings import check_state
from mmvidformer.errors import FileThere, MissingFile, UserError
from mmvidformer.storage.files import join
from mmvidformer.storage.targets import identity_of

LAB = "lab"  # a package of clones, which pip does not install


def check_inputs(cfg: Config, splits: Sequence[str], resume: str | None = None) -> None:
    """Check what a run needs: classes of datasets, files of lists, class names and checkpoints.

    Addresses are not read.

    Args:
        cfg: Complete config.
        splits: Which of ``train``, ``val`` and ``test`` the run reads.
        resume: Checkpoint to resume from; ``'auto'`` is one of the run's own.

    Raises:
        UserError: If a dataset is of a package that is not installed.
        FileNotFoundError: If a file is missing.
        CannotContinue: If the checkpoint has weights only.
        UnreadableCheckpoint: If it is damaged.
    """
    for split, dataset in _datasets(cfg, splits):
        module = str(dataset.get("type")).rpartition(".")[0]
        package = module.partition(".")[0]
        if package == LAB:
            _add_clone_to_path()
        if package != module and not find_spec(package):  # a path of a class, no scope and name
            text = f"{split}_dataloader: the dataset {dataset['type']} needs the package {package}"
            raise UserError(f"{text}, which is not installed; lab is in a clone of mmvidformer")
    for place, file in _files(cfg, splits):
        if not _exists(file):
            raise MissingFile(f"there is no file {file} ({place}){_maker_of(file)}")
    start = cfg.get("load_from") if resume is None else resume
    if start and resume != "auto" and not _exists(start):
        raise MissingFile(f"there is no checkpoint {start}")
    if resume not in (None, "auto") and not is_address(resume):
        if not is_intact(resume):
            newest = "--resume without a file takes the newest intact one of the work dir"
            raise UnreadableCheckpoint(f"{resume} is damaged, or no checkpoint; {newest}")
        check_state(read_mapped(resume), resume)


def check_apart(start: str | None, work_dir: str | Path) -> None:
    """Raise a ``UserError`` if a run would write over the checkpoint that it starts from."""
    if not start or not Path(start).is_file():
        return
    written = [*checkpoints_in(Path(work_dir)), *Path(work_dir).glob("best_*.pth")]
    if identity_of(start) in map(identity_of, written):
        raise UserError(
            f"the run would write over {start}, from which it starts; name another --work-dir"
        )


def check_unused(folder: str | Path) -> None:
    """Raise a ``FileExistsError`` if a folder has checkpoints, which a new run would replace."""
    written = [*checkpoints_in(Path(folder)), *Path(folder).glob("best_*.pth")]
    if not written:
        return
    newest = max(written, key=lambda path: path.stat().st_mtime_ns)
    raise FileThere(
        f"{newest} is of an earlier run: --resume goes on with it, --force starts again and "
        "replaces files of the same name, another --work-dir keeps all"
    )


def _files(cfg: Config, splits: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the files of lists and class names, each after its place in the config."""
    for split, dataset in _datasets(cfg, splits):
        names = (dataset.get("metainfo") or {}).get("classes")
        if isinstance(names, str):
            yield f"metainfo.classes of {split}_dataloader", names
        if isinstance(dataset.get("ann_file"), str) and dataset["ann_file"]:
            file = join(dataset.get("data_root") or "", dataset["ann_file"])
            yield f"ann_file of {split}_dataloader", file


def _add_clone_to_path() -> None:
    """Let ``lab`` be imported from a clone: an installed command does not look beside its package.

    What is installed, and what the user put on the path, still comes first.
    """
    clone = Path(__file__).parents[2]
    if (clone / LAB / "__init__.py").is_file() and str(clone) not in sys.path:
        sys.path.append(str(clone))


def _datasets(cfg: Config, splits: Sequence[str]) -> Iterator[tuple[str, ConfigDict]]:
    """Yield the datasets of splits, without what wraps them."""
    for split in splits:
        loader = cfg.get(f"{split}_dataloader") or {}
        for dataset in leaf_datasets(loader.get("dataset") or {}):
            yield split, dataset


def _exists(source: str) -> bool:
    return "://" in source or is_address(source) or Path(source).exists()


def _maker_of(file: str) -> str:
    """Return the command that makes a generated dataset: ``data/motion_cues`` has preset cues."""
    folder = Path(file).parent
    if not re.fullmatch("motion|motion_[a-z]+|camera", folder.name):
        return ""
    preset = folder.name.removeprefix("motion").removeprefix("_")
    option = f" --preset {preset}" if preset else ""
    return f"; make it with: python -m lab generate {folder}{option}"
