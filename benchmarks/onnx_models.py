"""Models of others in ONNX Runtime: exported by PyTorch, and in 8 bits by its own quantizer."""

from pathlib import Path

import torch
from torch import Tensor, nn


class OnnxModel(nn.Module):
    """A file that ONNX Runtime runs on a CPU.

    Args:
        path: The file, with one input and one output.
        threads: Number of threads.

    Attributes:
        bytes: Size of the file.
    """

    def __init__(self, path: Path, threads: int) -> None:
        import onnxruntime  # part of the extra 'export', as the others here

        super().__init__()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # errors
        self.session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        self.input_name = self.session.get_inputs()[0].name
        self.bytes = path.stat().st_size

    def forward(self, clip: Tensor) -> Tensor:
        """Run the file on a clip."""
        (output,) = self.session.run(None, {self.input_name: clip.numpy()})
        return torch.from_numpy(output)


def export_onnx(model: nn.Module, clip: Tensor, path: Path) -> Path:
    """Write a model for clips of one shape to one file, and return it."""
    with torch.no_grad():
        program = torch.onnx.export(model.eval(), (clip,), dynamo=True, verbose=False)
    program.save(path, external_data=False)
    return path


def round_to_int8(path: Path, target: Path) -> Path:
    """Write a file in 8 bits as ``quantize_dynamic`` makes it by default, and return it.

    Its operator for convolutions takes no signed weights, so the embedding stays in float32.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(path)
    del model.graph.value_info[:]  # PyTorch's shapes of what was folded, which are wrong
    quantize_dynamic(model, target, op_types_to_quantize=["MatMul"], weight_type=QuantType.QInt8)
    return target
