"""MMAction2's transforms without SciPy's statistics, until one is used."""

import inspect
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from mmaction.datasets.transforms import pose_transforms

from mmvidformer.repairs import scipy_stats


def test_mmaction2_still_imports_the_statistics() -> None:
    """Else the repair can be removed; of other names it would have to know."""
    root = Path(find_spec("mmaction").origin).parent
    imports = [
        line
        for folder in ("datasets", "evaluation", "structures", "utils", "visualization")
        for file in (root / folder).rglob("*.py")
        for line in re.findall(
            r"^.*import.*scipy.*|^.*scipy.*import.*", file.read_text("utf-8"), re.M
        )
    ]
    assert imports == ["import scipy", "from scipy.stats import mode"]


def test_the_most_frequent_number_of_persons() -> None:
    frames = np.array([1, 2, 2, 0])
    assert pose_transforms.get_mode(frames)[-1][0] == 2
    stand_in = scipy_stats._Statistics("scipy.stats")
    assert stand_in.mode(frames, keepdims=True) == scipy.stats.mode(frames, keepdims=True)


@pytest.mark.parametrize("fault", [None, ImportError("mmcv is missing")])
def test_others_that_are_imported_meanwhile(fault, monkeypatch) -> None:
    """They find the true names, and nothing stays in the place of the module."""
    true = scipy.stats
    monkeypatch.delitem(sys.modules, "scipy.stats")
    names = []

    def import_module(name: str) -> object:
        """MMAction2's transforms, among others', and then the statistics."""
        if name == "scipy.stats":
            assert name not in sys.modules
            return true
        names.append(name)
        stand_in = sys.modules["scipy.stats"]
        assert inspect.getsourcefile(stand_in) == true.__file__
        from scipy.stats import mode

        assert mode == stand_in.mode and not hasattr(stand_in, "__wrapped__")
        if fault is not None:
            raise fault
        from scipy.stats import norm

        assert norm is true.norm
        return None

    monkeypatch.setattr(scipy_stats, "import_module", import_module)
    if fault is None:
        scipy_stats.repair()
    else:
        with pytest.raises(ImportError, match="mmcv is missing"):
            scipy_stats.repair()
    assert names == ["mmaction.datasets.transforms"]
    assert "scipy.stats" not in sys.modules


def test_the_statistics_stay_where_they_are_there(monkeypatch) -> None:
    monkeypatch.delattr(scipy_stats, "import_module")
    scipy_stats.repair()
    assert sys.modules["scipy.stats"] is scipy.stats
