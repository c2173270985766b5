"""The part of a model repository of Triton that reads videos, and answers with rows."""

import json
import traceback
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import torch
from torch import Tensor

from mmvidformer.apis import Recognizer
from mmvidformer.apis.saved_config import FILE, read_saved_config
from mmvidformer.engine.offer_options import Limits
from mmvidformer.engine.pipelines import set_video_backend
from mmvidformer.errors import UserError
from mmvidformer.web.limits import MAX_PIXELS
from mmvidformer.web.query import read_query
from mmvidformer.web.rows import answer_rows

MOST_VIEWS = 8  # that go through the model together


class TritonPythonModel:
    """What Triton's Python backend runs, as ``export.triton`` writes it: videos in, rows out.

    ``video`` is the content of a file, with the limits of ``serve``; ``options``, if they are sent,
    are its query, as ``window=2&top=3``. Clips go through the model NAME_clips of the server.
    """

    def initialize(self, args: dict[str, str]) -> None:
        """Load what reads videos; the names of ``args`` are Triton's."""
        import triton_python_backend_utils  # a module of the server alone

        self.triton, self.clips = triton_python_backend_utils, f"{args['model_name']}_clips"
        folder = Path(args["model_repository"], args["model_version"])
        self.size = json.loads((folder / FILE).read_text(encoding="utf-8"))["size"]
        cfg: Any = read_saved_config(folder)
        set_video_backend(cfg, "pyav", max_pixels=MAX_PIXELS)
        self.recognizer = Recognizer(cfg, None, "cpu")
        self.head: Any = self.recognizer.model.cls_head
        self.outputs = self.recognizer.task.output_names(self.head)
        self.recognizer.run_elsewhere(lambda: self)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer requests; one that cannot be answered gets an error, and no other one."""
        return [self.answer(request) for request in requests]

    def answer(self, request: Any) -> Any:
        """Answer a request."""
        tensors = (self.triton.get_input_tensor_by_name(request, x) for x in ("video", "options"))
        content, query = (tensor and tensor.as_numpy().item() for tensor in tensors)
        try:
            asked = read_query(dict(parse_qsl((query or b"").decode())))
            with TemporaryDirectory() as folder:
                video = Path(folder, "video")
                video.write_bytes(content)
                rows = [*answer_rows(self.recognizer, Limits(), video, "video", asked, ())]
        except Exception as error:
            if not isinstance(error, UserError):
                traceback.print_exc()
            text = self.triton.TritonError(f"{type(error).__name__}: {error}")
            return self.triton.InferenceResponse([], text)
        array = np.array([json.dumps(row) for row in rows], np.object_)
        return self.triton.InferenceResponse([self.triton.Tensor("rows", array)])

    def run(self, sample: dict) -> Any:
        """Send the views (V, 3, T, H, W) of a sample, uint8, to the model of clips."""
        views = sample["inputs"]
        if [*views.shape[1:]] != self.size:
            shape, taken = (" ".join(map(str, size[1:])) for size in (views.shape[1:], self.size))
            raise UserError(f"its clips are {shape}, the model takes {taken}; see --shape")
        parts = [self.run_views(part) for part in views.split(MOST_VIEWS)]
        outputs = [torch.cat(output) for output in zip(*parts, strict=True)]
        scores = outputs if len(outputs) > 1 else outputs[0]
        return self.head.predict_by_feat(scores, [sample["data_samples"]])[0]

    def run_views(self, views: Tensor) -> list[Tensor]:
        """Return the outputs of the model of clips, a row for each view."""
        request = self.triton.InferenceRequest(
            model_name=self.clips,
            requested_output_names=self.outputs,
            inputs=[self.triton.Tensor("clip", views.numpy())],
        )
        response = request.exec()
        if response.has_error():
            raise UserError(response.error().message())
        find = self.triton.get_output_tensor_by_name
        return [torch.from_dlpack(find(response, name).to_dlpack()).cpu() for name in self.outputs]
