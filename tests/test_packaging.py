"""The wheel contains all modules, configs and scripts, which MMAction2's does not."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
SHIPPED = ("configs", "tools")
SCRIPTS = (
    *("check_install.sh", "coverage.sh", "gpu_check.sh"),
    *("quickstart.sh", "run_tests.sh", "set_address.py", "setup_env.sh"),
)
DEVELOPMENT = {f"mmvidformer/.mim/tools/{name}" for name in SCRIPTS}
# Of extras: they need a newer PyTorch, or a newer NumPy.
NOT_OLDEST = ("torchcodec", "trackers")
SOURCES = ("mmvidformer", "constraints", *SHIPPED)
FILES = ("setup.cfg", "setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE",
         "model-index.yml")  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the tree, to leave nothing in the checkout."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    ignore = shutil.ignore_patterns("__pycache__", ".mim")
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    for name in FILES:
        shutil.copy2(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return next(out.glob("mmvidformer-*.whl"))


def tracked(folder: str, *suffixes: str) -> set[str]:
    files = (ROOT / folder).rglob("*")
    return {
        str(path.relative_to(ROOT))
        for path in files
        if path.suffix in suffixes and ".mim" not in path.parts
    }


def test_wheel_contains_every_module_config_and_script(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    kinds = ".py", ".txt", ".yml", ".safetensors", ".md", ".mp4"
    expected = tracked("mmvidformer", *kinds) | {"mmvidformer/.mim/model-index.yml"}
    for folder in SHIPPED:
        expected |= {f"mmvidformer/.mim/{name}" for name in tracked(folder, ".py", ".sh", ".yml")}
    assert expected - DEVELOPMENT - inside == set()
    assert DEVELOPMENT <= expected
    assert DEVELOPMENT & inside == set()
    assert "mmvidformer/.mim/configs/vivit_fe_k400.py" in inside
    assert "mmvidformer/.mim/tools/train.py" in inside
    packages = {name.partition("/")[0] for name in inside if ".dist-info/" not in name}
    assert packages == {"mmvidformer"}


def test_wheel_declares_the_dependencies(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    metadata = next(name for name in archive.namelist() if name.endswith("METADATA"))
    text = archive.read(metadata).decode().replace("'", '"')
    for needed in ("importlib.metadata", "mmengine", "mmaction2", "decord", "einops", "timm"):
        assert re.search(f"Requires-Dist: {needed}", text)
    lines = [line for line in text.splitlines() if line.startswith("Requires-Dist: mmcv")]
    assert len(lines) == 1
    assert 'extra == "lite"' in lines[0]
    assert not re.search(r"Requires-Dist: scipy(?!.*extra)", text)
    assert "License-Expression: Apache-2.0" in text or "License: Apache-2.0" in text


def test_configs_resolve_from_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import mmvidformer, sys\n"
        "assert mmvidformer.__file__.startswith(sys.argv[1]), mmvidformer.__file__\n"
        "cfg = mmvidformer.get_config('vivit_fe_k400')\n"
        "assert cfg.model.backbone.type == 'mmvidformer.ViViT'\n"
        "print(cfg.filename)\n"
    )
    site = str(tmp_path / "site")
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, site],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": site},
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().startswith(site)


@pytest.mark.slow
@pytest.mark.skipif(torch.__version__ < "2.7", reason="PyTorch 2.6 writes no ONNX")
def test_each_step_runs_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    env = {**os.environ, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "PYTHON": sys.executable}
    command = ["bash", str(ROOT / "tools" / "check_install.sh"), str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    for name in ("start/test_1x1_score.json", "start/demo.json", "camera.json", "mine/model.pt2"):
        assert (tmp_path / name).is_file()


def test_unknown_config_suggests_similar_names() -> None:
    from mmvidformer import get_config

    with pytest.raises(KeyError, match="vivit_fe_k400"):
        get_config("vivit_fe_k40")


@pytest.mark.parametrize("stack", ["oldest", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_pinned_versions_satisfy_the_declared_ranges(stack: str) -> None:
    from configparser import ConfigParser

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "constraints" / f"{stack}.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if "==" in line]
    pins = {canonicalize_name(name): version for name, version in pairs}
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg")
    blocks = [parser["options"]["install_requires"], *parser["options.extras_require"].values()]
    lines = [line for block in blocks for line in block.strip().splitlines()]
    for line in lines:
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate(
            {"python_version": stack.replace("oldest", "3.10")}
        ):
            continue
        if requirement.name == "mmvidformer":  # one extra that includes others
            continue
        if stack == "oldest" and requirement.name in NOT_OLDEST:
            continue
        pin = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin), f"{requirement} excludes {pin}"


@pytest.mark.parametrize("stack", ["oldest", "3.10", "3.11", "3.12", "3.13", "3.14"])
def test_both_packages_of_opencv_are_of_one_version(stack: str) -> None:
    """They write to one folder: the last that is installed wins, and leaves files of the other."""
    text = (ROOT / "constraints" / f"{stack}.txt").read_text()
    pins = re.findall(r"(?m)^opencv(?:-contrib)?-python==(\S+)$", text)
    ranges = re.findall(
        r"(?m)^ +opencv(?:-contrib)?-python(\S+)$", (ROOT / "setup.cfg").read_text()
    )
    assert len(pins) == 2 and len({*pins}) == 1
    assert len(ranges) == 2 and len({*ranges}) == 1 and "<" in ranges[0]
