"""Packages are found without ``pkg_resources`` as MMEngine finds them with it."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from mmengine.utils import package_utils

from mmvidformer.config import packages

# A new interpreter that finds no pkg_resources, as with setuptools 82.
WITHOUT = """
import sys
import importlib.machinery as machinery
find = machinery.PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.split(".")[0] == "pkg_resources" else find(name, path, target)
machinery.PathFinder.find_spec = find_spec
"""


@pytest.mark.skipif(find_spec("pkg_resources") is None, reason="setuptools is 82 or newer")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["mmaction", "mmaction2", "mmengine", "mmcv", "nobody", "torch"])
def test_as_with_pkg_resources(name: str) -> None:
    assert packages.is_installed(name) == package_utils.is_installed(name) == (name != "nobody")
    paths = []
    for find in (packages.get_installed_path, package_utils.get_installed_path):
        try:
            paths.append(Path(find(name)))
        except Exception as error:  # each has its own class for a package that is missing
            paths.append("nobody" in str(error))
    assert paths[0] == paths[1]


def test_a_base_of_mmaction2_is_read_without_pkg_resources(tmp_path: Path) -> None:
    base = "mmaction::recognition/timesformer/timesformer_divST_8xb8-8x32x1-15e_kinetics400-rgb.py"
    (tmp_path / "config.py").write_text(f"_base_ = {base!r}\n")
    (tmp_path / "lacking.py").write_text("_base_ = 'mmseg::a/b.py'\n")
    code = (
        WITHOUT + "import mmvidformer.config as c\nprint(c.load_config({!r}).model.backbone.type)"
    )
    results = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code.format(name)],
            cwd=tmp_path,
            env=dict(os.environ, PYTHONPATH=str(Path(__file__).parents[2])),
            capture_output=True,
            text=True,
        )
        for name in ("config.py", "lacking.py")
    ]
    assert results[0].stdout.strip() == "TimeSformer", results[0].stderr
    assert "mmsegmentation is not installed" in results[1].stderr


def test_a_module_without_a_folder() -> None:
    with pytest.raises(RuntimeError, match="'sys' has no folder of its own"):
        packages.get_installed_path("sys")
