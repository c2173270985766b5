"""A model repository of Triton: its files by Triton's schema, and its answers."""

import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

from mmvidformer.apis import Recognizer
from mmvidformer.cli.export import main
from mmvidformer.errors import UserError
from mmvidformer.export import make_graph
from mmvidformer.export.triton import export_triton
from mmvidformer.registry import MODELS
from tests.export.recognizers import MODEL_LIST, build, need_onnx
from tests.video.numbered_videos import write as encode

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
VIDEO = Path(__file__).parents[2] / "mmvidformer" / "weights" / "camera_motion.mp4"


@pytest.fixture(scope="module")
def views(tmp_path_factory) -> tuple[str, str]:
    """Config and weights of a tiny model that sees ten views, more than a batch."""
    folder = tmp_path_factory.mktemp("views")
    cfg = Config.fromfile(Path(__file__).parents[1] / "cli" / "tiny_vivit.py")
    cfg.class_names = ["red", "green", "blue"]
    cfg.test_dataloader.dataset.pipeline[1].num_clips = 10
    cfg.dump(folder / "ten.views.py")
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        torch.save({"state_dict": MODELS.build(cfg.model).state_dict()}, folder / "tiny.pth")
    return str(folder / "ten.views.py"), str(folder / "tiny.pth")


@pytest.fixture(scope="module")
def repository(views, tmp_path_factory) -> Path:
    need_onnx()
    folder = tmp_path_factory.mktemp("triton") / "models"
    assert main([*views, "--triton", str(folder)]) == 0
    # It sees whole frames, here of 16:9.
    assert main(["camera_motion", "--triton", str(folder), "--shape", "8", "64", "112"]) == 0
    return folder


NAMES = "ten.views", "camera_motion"


def test_files_and_classes(repository: Path) -> None:
    files = sorted(str(file.relative_to(repository)) for file in repository.rglob("*.*"))
    files = [file for file in files if (repository / file).is_file()]
    assert files == sorted(
        file
        for name in NAMES
        for file in (
            f"{name}/1/config.json",
            f"{name}/1/model.py",
            f"{name}/config.pbtxt",
            f"{name}_clips/1/model.onnx",
            f"{name}_clips/config.pbtxt",
            f"{name}_clips/labels.txt",
        )
    )
    assert (repository / "ten.views_clips" / "labels.txt").read_text() == "red\ngreen\nblue"


@pytest.mark.parametrize("name", NAMES)
def test_configs_have_tritons_schema_and_the_shapes_of_the_file(repository, name: str) -> None:
    """They are read by the messages of Triton's own client."""
    schema = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    from google.protobuf import text_format

    reader, clips = (
        text_format.Parse((repository / model / "config.pbtxt").read_text(), schema.ModelConfig())
        for model in (name, f"{name}_clips")
    )
    assert (reader.name, clips.name) == (name, f"{name}_clips")
    assert (reader.backend, clips.backend) == ("python", "onnxruntime")
    assert [(node.name, node.optional) for node in reader.input] == [
        ("video", False),
        ("options", True),
    ]
    session = onnxruntime.InferenceSession(repository / f"{name}_clips" / "1" / "model.onnx")
    types = {"tensor(uint8)": schema.TYPE_UINT8, "tensor(float)": schema.TYPE_FP32}
    for nodes, stated in (
        (session.get_inputs(), clips.input),
        (session.get_outputs(), clips.output),
    ):
        found = [(node.name, types[node.type], node.shape[1:]) for node in nodes]
        assert found == [(node.name, node.data_type, list(node.dims)) for node in stated]
    assert clips.output[0].label_filename == "labels.txt"


class Tensor:
    """Triton's tensor."""

    def __init__(self, name: str, array: np.ndarray) -> None:
        self.name, self.array = name, array

    def as_numpy(self) -> np.ndarray:
        """Return it as an array."""
        return self.array

    def to_dlpack(self) -> Any:
        """Return what PyTorch reads."""
        return torch.utils.dlpack.to_dlpack(torch.from_numpy(self.array))


def tensor_named(tensors: Any, name: str) -> Tensor | None:
    return next((tensor for tensor in tensors.tensors if tensor.name == name), None)


def fake_triton(repository: Path, batches: list[int]) -> ModuleType:
    """Return what Triton offers to a model, whose requests ONNX Runtime answers."""

    class InferenceResponse:
        def __init__(self, tensors: Sequence[Tensor], error: Any = None) -> None:
            self.tensors, self._error = tensors, error

        def has_error(self) -> bool:
            return self._error is not None

        def error(self) -> Any:
            return self._error

    class InferenceRequest:
        def __init__(
            self, model_name: str, requested_output_names: list[str], inputs: list[Tensor]
        ) -> None:
            self.name, self.outputs, self.inputs = model_name, requested_output_names, inputs

        def exec(self) -> InferenceResponse:
            (clip,) = self.inputs
            batches.append(len(clip.array))
            session = onnxruntime.InferenceSession(repository / self.name / "1" / "model.onnx")
            arrays = session.run(self.outputs, {clip.name: clip.array})
            named = zip(self.outputs, arrays, strict=True)
            return InferenceResponse([Tensor(name, array) for name, array in named])

    module = ModuleType("triton_python_backend_utils")
    vars(module).update(
        Tensor=Tensor,
        InferenceRequest=InferenceRequest,
        InferenceResponse=InferenceResponse,
        TritonError=lambda text: SimpleNamespace(message=lambda: text),
        get_input_tensor_by_name=tensor_named,
        get_output_tensor_by_name=tensor_named,
    )
    return module


def request(content: bytes, options: str | None = None) -> SimpleNamespace:
    tensors = [Tensor("video", np.array([content], np.object_))]
    if options is not None:
        tensors.append(Tensor("options", np.array([options.encode()], np.object_)))
    return SimpleNamespace(tensors=tensors)


@pytest.fixture
def start(repository: Path, monkeypatch) -> Callable[..., Any]:
    """Start a model as Triton does."""

    def start(name: str, batches: list[int]) -> Any:
        module = fake_triton(repository, batches)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        spec = importlib.util.spec_from_file_location("model", repository / name / "1" / "model.py")
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        model = program.TritonPythonModel()
        folder = str(repository / name)
        model.initialize(dict(model_name=name, model_repository=folder, model_version="1"))
        return model

    return start


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_those_of_a_recognizer(start, views, name: str) -> None:
    batches: list[int] = []
    model = start(name, batches)
    arguments = views if name == "ten.views" else (name,)
    recognizer, content = Recognizer(*arguments, device="cpu"), VIDEO.read_bytes()
    parts = dict(window=2, stride=2, cuts="none")
    asked = (None, dict(), 5), ("window=2&stride=2&cuts=none&top=2", parts, 2)
    responses = model.execute([request(content, options) for options, *_ in asked])
    for response, (_, options, top) in zip(responses, asked, strict=True):
        assert not response.has_error()
        rows = [json.loads(text) for text in tensor_named(response, "rows").array]
        expected = [x.row(top) for x in recognizer.answers(VIDEO, **options)]
        assert len(rows) == len(expected) and (len(rows) > 1) == bool(options)
        for row, other in zip(rows, expected, strict=True):
            assert row["label"] == other["label"] and len(row["top"]) == len(other["top"])
            assert row["score"] == pytest.approx(other["score"], abs=1e-4)
            assert (row["start"], row["end"]) == (other["start"], other["end"])
    assert set(batches) == ({8, 2} if name == "ten.views" else {4})


def test_what_is_wrong_is_an_error_of_its_request_alone(start, tmp_path: Path) -> None:
    model = start("camera_motion", [])
    square = tmp_path / "square.mp4"
    encode(square, "libx264", range(20), size=(64, 64))
    good = VIDEO.read_bytes()
    requests = [
        request(b"<html>"),
        request(good, "boxes=/etc/passwd"),
        request(good, "window=0"),
        request(good, "address=http://127.0.0.1/a.mp4"),
        request(square.read_bytes()),
        request(good),
    ]
    html, boxes, window, address, other_shape, fine = model.execute(requests)
    assert "video: it is" in html.error().message()
    assert "no option named 'boxes'" in boxes.error().message()
    assert "window: must be a number above 0" in window.error().message()
    assert "the address is not allowed" in address.error().message() and not fine.has_error()
    message = "its clips are 8 64 64, the model takes 8 64 112; see --shape"
    assert message in other_shape.error().message()


def test_what_triton_does_not_get(repository, tmp_path: Path, capsys) -> None:
    with pytest.raises(FileExistsError, match="camera_motion exists already"):
        main(["camera_motion", "--triton", str(repository)])
    folder = str(tmp_path / "models")
    for name, size in (("frames", (3, 4, 16, 16)), ("stream", (3, 16, 16))):
        graph = make_graph(build(MODEL_LIST[name]), size, "uint8")
        with pytest.raises(UserError, match="Triton gets models that answer for videos"):
            export_triton(graph, folder, name, {}, {})
    for options in ([], ["--out", "a.onnx", "--triton", folder]):
        with pytest.raises(SystemExit):
            main(["camera_motion", *options])
        assert "name --out FILE, or --triton DIR" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["camera_motion", "--triton", folder, "--int8"])
    assert "--triton takes no --pixels, --int8" in capsys.readouterr().err
    assert not Path(folder).exists()
