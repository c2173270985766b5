"""Each repair: the fault is there without it, gone with it, and it does nothing else."""

import importlib.metadata
import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mmvidformer import compat
from mmvidformer.compat import (
    color_jitter,
    config_names,
    drn,
    metadata_backport,
    mmcv_version,
    noise,
    setuptools_82,
)
from mmvidformer.compat.finders import after_import

# Repairs that the versions of constraints.txt need. When one of these tests fails after an
# update, the repair has become needless: drop it and its row.
NEEDED_TODAY = (
    "drn",
    "multimodal",
    "checkpoints",
    "color_jitter",
    "half_scores",
    "untrusted_checkpoints",
)

HIDE = """
import sys
class Hide:
    # What is not installed: the other finders do not see it either.
    def __init__(self, finder): self.finder = finder
    def __getattr__(self, name): return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        hidden = name.split('.')[0] in {names!r}
        return None if hidden else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Hide(finder) for finder in sys.meta_path]
"""


def run_python(code: str, hide: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """Run code in a fresh interpreter, from which some packages are hidden."""
    code = (HIDE.format(names=hide) if hide else "") + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )


def succeeds(code: str, hide: tuple[str, ...] = ()) -> str:
    result = run_python(code, hide)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize("name", NEEDED_TODAY)
def test_repair_is_still_needed(name: str) -> None:
    assert getattr(compat, name).needed(), f"compat/{name}.py mends what is no longer broken"


def test_every_repair_says_what_it_mends() -> None:
    for module in compat.REPAIRS:
        assert "Symptom" in module.__doc__, module.__name__
        assert callable(module.needed), module.__name__
        assert callable(module.repair), module.__name__


@pytest.mark.parametrize(
    "before",
    ["", "import mmengine", "import mmaction", "import mmaction.registry, mmengine.runner"],
)
def test_any_order_of_imports_works(before: str) -> None:
    code = f"""
    {before}
    import mmvidformer
    import mmaction
    from mmaction.registry import MODELS
    import mmaction.models
    print(MODELS.get('Recognizer3D').__name__, MODELS.get('mmvidformer.ViViT').__name__)
    """
    assert succeeds(code).splitlines()[-1] == "Recognizer3D ViViT"


def test_without_us_mmaction_does_not_import() -> None:
    result = run_python("import mmaction.models")
    assert "mmaction.models.localizers.drn" in result.stderr


def test_missing_drn_cannot_be_built() -> None:
    from mmaction.models.localizers import DRN

    assert DRN is drn.DRN
    with pytest.raises(ImportError, match="2714"):
        DRN()


def test_multimodal_models_are_placeholders_that_say_so() -> None:
    from mmaction.registry import MODELS
    from mmaction.utils.dependency import WITH_MULTIMODAL

    assert not WITH_MULTIMODAL
    import mmaction.models  # noqa: F401

    with pytest.raises(ImportError, match="VindLU"):
        MODELS.get("VindLUVQA")()


def test_multimodal_models_of_mmpretrain_are_off_too(tmp_path: Path) -> None:
    package = tmp_path / "mmpretrain" / "utils"
    package.mkdir(parents=True)
    (package / "dependency.py").write_text("WITH_MULTIMODAL = True")
    code = f"""
    import sys
    import mmvidformer
    sys.path.insert(0, {str(tmp_path)!r})
    from mmpretrain.utils.dependency import WITH_MULTIMODAL
    print(WITH_MULTIMODAL)
    """
    assert succeeds(code).splitlines()[-1] == "False"


def test_without_setuptools_mmengine_finds_packages() -> None:
    code = """
    import mmvidformer
    from mmengine.utils import get_installed_path, is_installed
    import importlib.util
    print(is_installed('mmaction2'), is_installed('no-such-package'))
    print(get_installed_path('mmaction2'))
    """
    lines = succeeds(code, hide=("pkg_resources", "setuptools")).splitlines()
    assert lines[-2] == "True False"
    assert Path(lines[-1]).name == "mmaction"


def test_setuptools_is_left_alone_where_it_has_pkg_resources() -> None:
    assert not setuptools_82.needed()
    assert "setuptools_82" not in succeeds(
        "import mmvidformer, pkg_resources; print(pkg_resources.get_distribution.__module__)"
    )


def test_without_the_metadata_backport_mmaction_imports() -> None:
    code = """
    import mmvidformer
    import mmaction.models
    from mmaction.utils.dependency import satisfy_requirement
    print(satisfy_requirement('torch>=2.0'), satisfy_requirement('no-such-package'))
    """
    assert succeeds(code, hide=("importlib_metadata",)).splitlines()[-1] == "True False"


def test_missing_mmcv_is_explained() -> None:
    result = run_python("import mmvidformer", hide=("mmcv",))
    assert "no mmcv is installed" in result.stderr
    assert "mmvidformer[lite]" in result.stderr


@pytest.mark.parametrize("version", ["1.7.2", "2.2.0", "3.0.1"])
def test_unfit_mmcv_is_explained(version: str) -> None:
    result = run_python(
        f"import mmcv.version as v; v.__version__ = {version!r}; import mmvidformer"
    )
    assert f"mmcv {version} is installed" in result.stderr
    assert ">= 2.0 and < 2.2" in result.stderr


def test_colour_jitter_takes_negative_hues() -> None:
    import mmaction.datasets.transforms  # noqa: F401
    from mmaction.registry import TRANSFORMS

    jitter = TRANSFORMS.build({"type": "ColorJitter"})
    red = np.full((2, 2, 3), (255, 0, 0), dtype=np.uint8)
    for offset in (-0.1, 0.1):
        jitter.brightness = jitter.contrast = jitter.saturation = (1, 1)
        jitter.hue = (offset, offset)
        out = jitter.transform({"imgs": [red]})["imgs"][0]
        np.testing.assert_array_equal(out, color_jitter.adjust_hue(red, offset))


@pytest.mark.parametrize(
    ("factor", "rgb"), [(0.0, (255, 0, 0)), (-30 / 255, (255, 0, 255)), (60 / 255, (0, 255, 0))]
)
def test_hue_turns_both_ways(factor: float, rgb: tuple[int, int, int]) -> None:
    red = np.full((1, 1, 3), (255, 0, 0), dtype=np.uint8)
    assert tuple(color_jitter.adjust_hue(red, factor)[0, 0]) == rgb


def test_configs_are_found_by_name(tmp_path: Path) -> None:
    from mmengine.config import Config

    name = sorted(path.name for path in config_names.config_folder().glob("*.py"))[0]
    (tmp_path / "mine.py").write_text(f"_base_ = 'mmvidformer::{name}'\nmarker = 1\n")
    cfg = Config.fromfile(tmp_path / "mine.py")
    assert cfg.marker == 1
    assert cfg.model.type == "Recognizer3D"

    (tmp_path / "typo.py").write_text("_base_ = 'mmvidformer::vivit_fe_k401.py'\n")
    with pytest.raises(FileNotFoundError, match="vivit_fe_k401"):
        Config.fromfile(tmp_path / "typo.py")


def test_configs_of_other_packages_are_found_as_before(tmp_path: Path) -> None:
    from mmengine.config import Config

    (tmp_path / "mine.py").write_text("_base_ = 'mmaction::_base_/default_runtime.py'\n")
    assert Config.fromfile(tmp_path / "mine.py").default_scope == "mmaction"


def test_looking_for_a_module_leaves_its_repair_in_place(tmp_path, monkeypatch):
    (tmp_path / "looked_for.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    changed = []
    for letter in "ab":  # two repairs of one module
        after_import("looked_for", lambda module, letter=letter: changed.append(letter))
    assert importlib.util.find_spec("looked_for") is not None
    assert changed == []
    module = importlib.import_module("looked_for")
    assert (module.value, sorted(changed)) == (1, ["a", "b"])
    assert not any(getattr(finder, "name", "") == "looked_for" for finder in sys.meta_path)
    monkeypatch.delitem(sys.modules, "looked_for")


@pytest.mark.parametrize(
    ("version", "fits"),
    [("2.0.0rc3", False), ("2.0.0rc4", True), ("2.0.1", True), ("2.1.0", True), ("2.2.0", False),
     ("1.7.2", False), ("2.10.0", False), (None, False)],
)  # fmt: skip
def test_mmcv_is_judged_as_mmaction_does(version, fits, monkeypatch):
    monkeypatch.setattr(mmcv_version, "_installed", lambda: version)
    assert mmcv_version.needed() is not fits


def test_the_backports_stand_in_has_all_names_of_the_standard_library():
    module = ModuleType("importlib_metadata")
    metadata_backport._fill(module)
    assert module.version("torch") == importlib.metadata.version("torch")
    assert set(module.__all__) == set(importlib.metadata.__all__) <= set(vars(module))


def test_only_noise_is_silenced() -> None:
    code = """
    import warnings
    import mmvidformer
    from mmengine.fileio import FileClient
    from mmengine.logging import MMLogger, print_log
    from mmengine.utils.package_utils import get_installed_path
    import mmaction.models
    MMLogger.get_instance("a")
    FileClient("disk")
    get_installed_path("mmengine")
    warnings.warn("pkg_resources is slow")
    warnings.warn("`broadcast_buffers` is deprecated", FutureWarning)
    print_log('"FileClient" is slow', "current", 30)
    """
    code = textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = [line.partition("arning: ")[2] for line in done.stderr.splitlines()]
    assert list(filter(None, said)) == [
        "pkg_resources is slow",
        "`broadcast_buffers` is deprecated",
    ]
    assert done.stdout.count("WARNING") + done.stderr.count("WARNING") == 1


def test_what_is_silenced_is_still_said() -> None:
    """When this fails after an update, a row of ``noise`` has become needless: drop it."""
    homes = {
        "mmengine.fileio.file_client": noise.LOG_LINES,
        "mmcv.cnn.bricks.transformer": ["Fail to import ``MultiScaleDeformableAttention``"],
        "pkg_resources": ["pkg_resources is deprecated as an API"],
        "torch.nn.parallel.distributed": ["`broadcast_buffers` is deprecated"],
    }
    for module, lines in homes.items():
        spec = importlib.util.find_spec(module)
        if spec is not None:  # setuptools from 82 on has no pkg_resources
            text = Path(spec.origin).read_text()
            assert not [line for line in lines if line not in text], module
