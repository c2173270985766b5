"""Each repair: the fault is present without it, fixed with it, and nothing else changes."""

import multiprocessing
import subprocess
import sys
import textwrap
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.registry import METRICS
from mmaction.structures import ActionDataSample
from torch import nn

from mmvidformer import repairs
from mmvidformer.layers.scores import widen
from mmvidformer.repairs import drn, multimodal

# The oldest stack has other faults.
current = pytest.mark.skipif(np.__version__.startswith("1."), reason="faults of newer versions")

HIDE = """
import sys
class Hide:
    # Hides packages from the other finders, as if they were not installed.
    def __init__(self, finder): self.finder = finder
    def __getattr__(self, name): return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        hidden = name.split('.')[0] in {names!r}
        return None if hidden else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Hide(finder) for finder in sys.meta_path]
"""


def run_python(code: str, hide: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """Run code in a new interpreter that does not find the packages in ``hide``."""
    code = (HIDE.format(names=hide) if hide else "") + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )


def succeeds(code: str, hide: tuple[str, ...] = ()) -> str:
    result = run_python(code, hide)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_every_repair_documents_its_symptom() -> None:
    for file in Path(repairs.__file__).parent.glob("[!_]*.py"):
        assert "Symptom" in file.read_text("utf-8"), file
    modules = [import_module(f"{repairs.__name__}.{name}") for name in repairs.REPAIRS]
    assert all(callable(module.repair) for module in modules)


# Without us the models cannot be imported; what has been imported then stays.
FAILURE = """
import mmaction.datasets.transforms, mmaction.evaluation, mmengine.runner
try:
    import mmaction.models
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("before", "printed"),
    [
        (FAILURE, ["No module named 'mmaction.models.localizers.drn'"]),
        pytest.param("", [], marks=pytest.mark.slow),
        pytest.param("import mmengine", [], marks=pytest.mark.slow),
        pytest.param("import mmaction", [], marks=pytest.mark.slow),
    ],
    ids=["failure", "first", "mmengine", "mmaction"],
)
def test_any_order_of_imports_works(before: str, printed: list[str]) -> None:
    code = """
    import mmvidformer.registry
    import mmaction
    from mmaction.registry import MODELS
    import mmaction.models
    from mmaction.datasets.transforms import ColorJitter
    from mmengine.runner import CheckpointLoader
    print(MODELS.get('Recognizer3D').__name__, MODELS.get('mmvidformer.ViViT').__name__)
    print(ColorJitter.adjust_hue.__module__, 'hf://' in CheckpointLoader._schemes)
    """
    is_old = np.__version__.startswith("1.")  # there MMAction2's own stays
    hue = "mmaction.datasets.transforms.processing" if is_old else "mmvidformer.repairs.numpy_2"
    printed = [*printed, "Recognizer3D ViViT", f"{hue} True"]
    assert succeeds(before + textwrap.dedent(code)).splitlines()[-len(printed) :] == printed


def test_repairs_are_applied_once() -> None:
    from mmengine.runner import CheckpointLoader

    before = CheckpointLoader.load_checkpoint
    repairs.apply()
    assert CheckpointLoader.load_checkpoint == before


def test_missing_drn_cannot_be_built() -> None:
    from mmaction.models.localizers import DRN
    from mmaction.registry import MODELS

    assert DRN is None
    with pytest.raises(KeyError, match="DRN is not in the mmaction::model registry"):
        MODELS.build({"type": "DRN"})


@current
def test_transformers_still_lacks_the_function() -> None:
    """Else the repair ``multimodal`` can be removed."""
    source = Path(find_spec("transformers").origin).with_name("modeling_utils.py")
    assert "apply_chunking_to_forward" not in source.read_text("utf-8")


@current
def test_multimodal_models_are_placeholders() -> None:
    from mmaction.registry import MODELS
    from mmaction.utils.dependency import WITH_MULTIMODAL

    assert not WITH_MULTIMODAL
    import mmaction.models  # noqa: F401

    with pytest.raises(ImportError, match="VindLU"):
        MODELS.get("VindLUVQA")()


@current
def test_multimodal_models_of_mmpretrain_are_disabled_without_a_warning(tmp_path: Path) -> None:
    package = tmp_path / "mmpretrain" / "utils"
    package.mkdir(parents=True)
    code = "WITH_MULTIMODAL = True\ndef satisfy_requirement(dep): return True"
    (package / "dependency.py").write_text(code)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    code = f"""
    import sys
    sys.path.insert(0, {str(tmp_path)!r})
    import mmvidformer.registry
    from mmpretrain.utils.dependency import WITH_MULTIMODAL
    print(WITH_MULTIMODAL)
    """
    # uv compiles nothing before: MMAction2 has patterns with single backslashes.
    command = [sys.executable, "-W", "ignore::SyntaxWarning", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", ["False"])


def test_a_wrong_mmcv_is_explained_and_a_right_one_works_on_python_3_14(tmp_path: Path) -> None:
    """Without the repair it fails; if it no longer does after an update, remove the repair.

    MMAction2 explains a wrong mmcv before, and the registry does without transformers, too.
    """
    (tmp_path / "_ext.py").touch()
    code = f"""
    import pkgutil, sys
    vars(pkgutil).pop("find_loader", None)
    import mmengine, mmcv

    def look():
        from mmcv.utils.ext_loader import check_ops_exist
        from mmengine.utils.dl_utils import mmcv_full_available
        sys.modules.pop("mmcv._ext", None)
        folders = mmcv.__path__
        try:
            for mmcv.__path__ in ([], [{str(tmp_path)!r}]):
                print(mmcv_full_available(), check_ops_exist())
        except AttributeError as error:
            print(error)
        mmcv.__path__ = folders

    look()
    version = mmcv.__version__
    for mmcv.__version__ in ("2.2.0", "1.7.2"):
        try:
            import mmvidformer.registry
        except AssertionError as error:
            print(error)
    mmcv.__version__ = version
    import mmvidformer.registry
    look()
    """
    without, newer, older, *found = succeeds(code, hide=("transformers",)).splitlines()
    assert "no attribute 'find_loader'" in without
    for version, explained in (("2.2.0", newer), ("1.7.2", older)):
        assert f"MMCV=={version} is used but incompatible. Please install mmcv>=2" in explained
    assert found[-2:] == ["False False", "True True"]


def test_missing_mmcv_is_explained() -> None:
    result = run_python("import mmvidformer.registry", hide=("mmcv",))
    assert 'MMAction2 needs mmcv: pip install "mmcv-lite>=2.0.1,<2.2"' in result.stderr


def _base_head() -> nn.Module:
    from mmaction.models.heads import BaseHead

    class Head(BaseHead):
        def forward(self, feats: torch.Tensor) -> torch.Tensor:
            return feats

    return Head(num_classes=3, in_channels=2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_heads_compute_losses_and_predictions_in_float32(dtype: torch.dtype) -> None:
    head, scores = _base_head(), torch.tensor([[0.0, 3.0, 1.0]])
    losses = head.loss(scores.to(dtype), [ActionDataSample().set_gt_label(1)])
    assert losses["top1_acc"] == 1
    torch.testing.assert_close(
        losses["loss_cls"], nn.functional.cross_entropy(scores, torch.tensor([1]))
    )
    (sample,) = head.predict(scores.to(dtype), [ActionDataSample()])
    assert sample.pred_score.dtype == torch.float32
    assert sample.pred_label == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_other_scores_are_passed_on(dtype: torch.dtype) -> None:
    scores = {"verb": torch.zeros(1, 3, dtype=dtype), "names": ["a"]}
    assert widen(scores)["verb"] is scores["verb"]


def test_an_own_drn_of_mmaction_is_kept(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mmaction" / "models" / "localizers" / "drn").mkdir(parents=True)
    (tmp_path / "mmaction" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("mmaction", drn.PACKAGE):
        monkeypatch.delitem(sys.modules, name)
    drn.repair()
    assert drn.PACKAGE not in sys.modules


def test_multimodal_models_are_kept_with_an_older_transformers(monkeypatch) -> None:
    from mmaction.utils import dependency

    monkeypatch.setattr(dependency, "WITH_MULTIMODAL", True)
    monkeypatch.setattr(dependency, "satisfy_requirement", lambda requirement: False)
    multimodal.repair()
    assert dependency.WITH_MULTIMODAL


@pytest.mark.parametrize("many", [1, 1000], ids=["new processes", "here"])
def test_the_metric_of_ava_forks_nothing(many: int, tmp_path: Path, monkeypatch) -> None:
    """Two classes of one box: AP 1, and none predicted, which MMAction2 leaves out."""
    from mmaction.evaluation.functional import ava_utils

    METRICS.get("AVAMetric")  # imports the repair
    monkeypatch.setattr("mmvidformer.repairs.ava_pool.MANY", many)
    monkeypatch.delattr(multiprocessing, "Pool")
    truth, names, found = (tmp_path / name for name in ("truth.csv", "names.pbtxt", "found.csv"))
    truth.write_text("v,1,0.1,0.1,0.5,0.5,1,0\nv,1,0.1,0.1,0.5,0.5,2,0\n")
    names.write_text("".join(f'item {{\n  name: "{i}"\n  id: {i}\n}}\n' for i in (1, 2, 3)))
    found.write_text("v,1,0.1,0.1,0.5,0.5,1,0.9\n")
    metrics = ava_utils.ava_eval(str(found), "mAP", str(names), str(truth), None)
    assert metrics["overall"] == 1
