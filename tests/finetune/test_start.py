"""The weights that a run starts from without a checkpoint."""

from pathlib import Path

from mmvidformer import get_config
from mmvidformer.finetune.prepare import save_start
from tests.tiny_configs import shrink


def test_equal_weights_are_equal_files(tmp_path: Path) -> None:
    """Other runs, and other folds, know the features by the hash of this file."""
    cfg = shrink(get_config("vivit_fe_motion"))
    files = []
    for run, seed in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / run).mkdir()
        files.append(Path(save_start(cfg, tmp_path / run / "start.pth", seed)).read_bytes())
    first, second, other_seed = files
    assert first == second != other_seed
