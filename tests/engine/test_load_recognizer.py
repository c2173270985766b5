import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.registry import DefaultScope

from mmvidformer.apis import Recognizer
from mmvidformer.engine.loading import default_device, load_recognizer
from mmvidformer.models.steps import StepModel
from mmvidformer.registry import MODELS


@pytest.fixture
def cfg() -> Config:
    return Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")


@pytest.fixture
def model(cfg: Config) -> torch.nn.Module:
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        return MODELS.build(cfg.model).eval()


@pytest.fixture
def checkpoint(model: torch.nn.Module, tmp_path: Path) -> str:
    path = tmp_path / "tiny.pth"
    torch.save({"meta": {}, "state_dict": model.state_dict()}, path)
    return str(path)


def test_a_device_that_cannot_be_used(cfg) -> None:
    with pytest.raises(ValueError, match="the device 'cuda:x' cannot be used: Invalid device"):
        load_recognizer(cfg, None, "cuda:x")


def test_weights_are_the_checkpoints(cfg, model, checkpoint) -> None:
    loaded = load_recognizer(cfg, checkpoint)
    assert not loaded.training
    for name, value in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value)


def test_a_checkpoint_that_does_not_fit_is_refused(cfg, model, checkpoint) -> None:
    state = model.state_dict()
    torch.save({k: v for k, v in state.items() if "cls_head" not in k}, checkpoint)
    assert load_recognizer(cfg, checkpoint, head=False)
    with pytest.raises(ValueError, match=r"tiny.pth does not fit .* 2 missing \(cls_head.fc_cls.w"):
        load_recognizer(cfg, checkpoint)
    torch.save({**state, "neck.w": torch.zeros(1)}, checkpoint)
    with pytest.raises(ValueError, match=r"tiny.pth .* 1 unexpected \(neck.w\)$"):
        load_recognizer(cfg, checkpoint)
    cfg.model.backbone.arch.embed_dims = 24
    torch.save(state, checkpoint)
    with pytest.raises(ValueError, match=r"\d+ of another shape .*, \.\.\.\)$"):
        load_recognizer(cfg, checkpoint)
    with pytest.raises(FileNotFoundError, match="no.pth"):
        load_recognizer(cfg, "no.pth")


@pytest.mark.parametrize("meta", ["text", {"dataset_meta": 3}, {"dataset_meta": {"classes": 3}}])
def test_facts_of_another_type_are_left_out(meta: object, cfg, model, checkpoint) -> None:
    torch.save({"meta": meta, "state_dict": model.state_dict()}, checkpoint)
    assert Recognizer(cfg, checkpoint, "cpu").names["class"] == ["0", "1", "2"]


def test_names_that_are_numbers_are_text(cfg, model, checkpoint) -> None:
    meta = {"dataset_meta": {"classes": [7, 8, 9]}}
    torch.save({"meta": meta, "state_dict": model.state_dict()}, checkpoint)
    assert Recognizer(cfg, checkpoint, "cpu").names["class"] == ["7", "8", "9"]


@pytest.mark.parametrize("form", [torch.Tensor.to_sparse, lambda value: value.to("meta")])
def test_tensors_without_plain_values_do_not_fit(form, cfg, model, checkpoint) -> None:
    state = {name: form(value) for name, value in model.state_dict().items()}
    torch.save({"state_dict": state}, checkpoint)
    with pytest.raises(ValueError, match="tiny.pth does not fit the model of the config: .* miss"):
        load_recognizer(cfg, checkpoint)


def test_initial_weights_are_not_reported_one_by_one(cfg) -> None:
    """MMEngine logs a line for each; other lines, and the level, stay."""
    logger, seen = MMLogger.get_current_instance(), []
    handler = logging.Handler(logging.INFO)
    handler.emit = seen.append
    logger.addHandler(handler)
    before = logger.level
    try:
        load_recognizer(cfg, None)
    finally:
        logger.removeHandler(handler)
    assert seen == [] and logger.level == before


@pytest.mark.parametrize(("gpu", "expected"), [(True, "cuda"), (False, "cpu")])
def test_the_gpu_is_the_default_if_there_is_one(cfg, gpu, expected, monkeypatch) -> None:
    """Of all that predicts; models that are built to be trained or exported stay on the CPU."""
    moved = []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # which MMEngine reads for its logger
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(StepModel, "to", lambda model, device: moved.append(device) or model)
    Recognizer(cfg, None)
    Recognizer(cfg, None, "cuda:1")
    load_recognizer(cfg, None)
    assert moved == [expected, "cuda:1", "cpu"]
    assert default_device() == expected


@pytest.mark.gpu
def test_predictions_on_a_gpu(cfg) -> None:
    video = np.random.default_rng(0).integers(0, 256, (24, 32, 64, 3), dtype=np.uint8)
    torch.manual_seed(0)
    recognizer = Recognizer(cfg, None)
    assert "cuda" in repr(recognizer)
    found = recognizer(video).scores["class"]
    recognizer.model.cpu()
    np.testing.assert_allclose(found, recognizer(video).scores["class"], atol=1e-3)


FORMS = {
    "plain": lambda state: state,
    "model": lambda state: {"model": state, "optimizer": {}},
    "model_state_dict": lambda state: {"model_state_dict": state, "epoch": 1},
    "DeepSpeed": lambda state: {"module": state, "optimizer": None},
    "DDP": lambda state: {f"module.{name}": value for name, value in state.items()},
    "compile": lambda state: {f"_orig_mod.{name}": value for name, value in state.items()},
    "DDP of compile": lambda state: {f"module._orig_mod.{n}": x for n, x in state.items()},
    "compiled backbone": lambda state: {
        name.replace("backbone.", "backbone._orig_mod."): value for name, value in state.items()
    },
    "Lightning": lambda state: {"state_dict": {f"model.{n}": x for n, x in state.items()}},
}


@pytest.mark.parametrize("form", FORMS)
def test_weights_of_training_loops_are_read_whatever_wraps_them(
    cfg, model, tmp_path, form: str
) -> None:
    expected = model.state_dict()
    torch.save(FORMS[form](expected), tmp_path / "own.pth")
    reached = load_recognizer(cfg, str(tmp_path / "own.pth")).state_dict()
    torch.testing.assert_close(reached, expected, rtol=0, atol=0)


@pytest.mark.parametrize("content", [{"net": {"weight": torch.ones(1)}}, {"model": [1]}])
def test_a_file_without_weights_names_its_keys(cfg, tmp_path, content: dict) -> None:
    torch.save({**content, "epoch": 3}, tmp_path / "own.pth")
    with pytest.raises(
        ValueError, match=f"own.pth has no weights under a known key .* {[*content][0]}, epoch"
    ):
        load_recognizer(cfg, str(tmp_path / "own.pth"))
