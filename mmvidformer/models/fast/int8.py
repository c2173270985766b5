"""Linear layers whose weights and inputs have 8 bits, for inference on a CPU.

The products are those of oneDNN that PyTorch's compiler uses, on plain tensors of int8 and uint8.
PyTorch's quantized tensors (``torch.ao``) have the same speed and are to be removed.
"""

import copy
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from mmvidformer.errors import UserError
from mmvidformer.layers import TransformerBlock
from mmvidformer.layers.fixation import Fixation
from mmvidformer.layers.linear import is_plain
from mmvidformer.models.fast.run_lengths import without_runs
from mmvidformer.models.video_transformer import VideoTransformer

ONEDNN = torch.ops.onednn
WEIGHT_STEPS = 127  # of the largest weight of an output; symmetric, so that 0 is exact
# Between the least and the largest number of a clip. One is left for what is rounded up.
INPUT_STEPS = {8: 254, 7: 126}
SMALLEST_SCALE = torch.finfo(torch.float32).tiny * INPUT_STEPS[8]  # its inverse is a float32
PART = 2**18  # inputs that are rounded at once: what is between stays in the cache


class Int8Linear(nn.Module):
    """A linear layer that multiplies numbers of 8 bits on a CPU, and adds up in 32.

    Weights are rounded once, with a scale for each output. Inputs are rounded in each call, to
    steps between the least and the largest number of a clip, of 8 bits, or of 7 where the processor
    needs it (``input_bits``). So no clip depends on the others of its batch. A backward
    pass raises a RuntimeError. The weights do not change, so copies share them, and stay on the CPU
    in their types.

    Args:
        linear: The layer, on the CPU.

    Raises:
        UserError: If the layer is on another device, or PyTorch has no such products.
    """

    scales: Tensor
    zeros: Tensor
    bias: Tensor | None

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        check_int8(linear.weight.device)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.steps = INPUT_STEPS[input_bits()]
        rounded, scales = round_weight(linear.weight.detach().float())
        bias = linear.bias
        self.packed = ONEDNN.qlinear_prepack(rounded, None)  # (D, D'), in an order of its own
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(len(scales), dtype=torch.long))
        self.register_buffer("bias", None if bias is None else bias.detach().float())

    def forward(self, input: Tensor, act: nn.GELU | None = None) -> Tensor:
        """Map (N, ..., in_features) of N clips to (N, ..., out_features), and apply a GELU."""
        if not input.numel():
            return input.new_empty(*input.shape[:-1], self.out_features)
        clips = [self._multiply(clip, act) for clip in input.detach().float()]
        out = (clips[0][None] if len(clips) == 1 else torch.stack(clips)).to(input.dtype)
        if torch.is_grad_enabled() and input.requires_grad:
            return NoGradient.apply(out, input)
        return out

    def _multiply(self, clip: Tensor, act: nn.GELU | None) -> Tensor:
        rows = clip.reshape(-1, self.in_features)
        least, largest = (x.item() for x in torch.aminmax(rows))
        if not math.isfinite(largest - least):
            return clip.new_full((*clip.shape[:-1], self.out_features), math.nan)
        least, largest = min(least, 0.0), max(largest, 0.0)
        scale = max((largest - least) / self.steps, SMALLEST_SCALE)
        zero = round(-least / scale)
        shift, rounded = rows.new_tensor(zero + 0.5), torch.empty_like(rows, dtype=torch.uint8)
        size = max(PART // self.in_features, 1)
        for part, target in zip(rows.split(size), rounded.split(size), strict=True):
            target.copy_(torch.add(shift, part, alpha=1 / scale))
        name, algorithm = ("none", "") if act is None else ("gelu", act.approximate)
        weights = self.packed, self.scales, self.zeros, self.bias
        out = ONEDNN.qlinear_pointwise(
            rounded, scale, zero, *weights, 1.0, 0, torch.float32, name, [], algorithm
        )
        return out.unflatten(0, clip.shape[:-1]) if clip.dim() > 1 else out[0]

    def __deepcopy__(self, memo: dict) -> "Int8Linear":
        memo[id(self)] = clone = type(self).__new__(type(self))
        memo[id(self.packed)] = self.packed  # oneDNN's tensors cannot be copied, and never change
        clone.__dict__ = copy.deepcopy(self.__dict__, memo)
        return clone

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Int8Linear":
        check_int8(fn(torch.empty(0)).device)
        return self  # the numbers have one type

    def get_extra_state(self) -> Tensor:
        """Return the rounded weight (D', D), for state dicts."""
        return self.packed.to_dense().t().contiguous()

    def set_extra_state(self, state: Tensor) -> None:
        """Take a rounded weight (D', D)."""
        if state.shape != (size := (self.out_features, self.in_features)):
            raise UserError(f"a weight of 8 bits must have shape {size}, got {tuple(state.shape)}")
        self.packed = ONEDNN.qlinear_prepack(state, None)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "packed": self.get_extra_state()}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.set_extra_state(state["packed"])
        self.steps = INPUT_STEPS[input_bits()]  # on this processor

    def extra_repr(self) -> str:
        """Show the settings in the printed model."""
        return f"{self.in_features}, {self.out_features}, steps of inputs: {self.steps}"


class NoGradient(torch.autograd.Function):
    """An output of 8 bits: gradients of what is before it would be wrong, so there are none."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, input: Tensor) -> Tensor:
        """Return the output, as one of the input."""
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        """Raise a RuntimeError."""
        raise RuntimeError("a model of 8 bits has no gradients: take them of the model itself")


def round_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Round a weight (D', D) to int8; returns it, and the scales (D',) of its rows."""
    scales = weight.abs().amax(dim=1) / WEIGHT_STEPS
    scales = torch.where(scales > 0, scales, 1.0)  # of an output without any weight
    return (weight / scales[:, None]).round().to(torch.int8), scales


@cache
def input_bits() -> int:
    """Return 8, or 7 if products of 8 bits overflow here.

    Processors without VNNI add up pairs of products in 16 bits, at most 32767. Two inputs of 254
    times two weights of 127 are more, two of 126 are not.
    """
    rounded, scales = round_weight(torch.ones(32, 64))
    packed = ONEDNN.qlinear_prepack(rounded, None)
    largest = torch.full((1, 64), INPUT_STEPS[8], dtype=torch.uint8)
    options = (scales, torch.zeros(32, dtype=torch.long), None, 1.0, 0, torch.float32)
    out = ONEDNN.qlinear_pointwise(largest, 1.0, 0, packed, *options, "none", [], "")
    return 8 if (out / out.new_tensor(64 * INPUT_STEPS[8]) - 1).abs().max() < 1e-3 else 7


def check_int8(device: torch.device) -> None:
    """Raise a UserError if there are no products of 8 bits."""
    if device.type != "cpu":
        raise UserError(f"int8 is for CPUs, got a model on {device}: choose the device cpu")
    if not (torch.backends.mkldnn.is_available() and hasattr(ONEDNN, "qlinear_pointwise")):
        raise UserError("this build of PyTorch has no products of 8 bits; leave int8 out")


def linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """Return the layers that int8 replaces, by name: of backbones, and of blocks in a head.

    They are plain, and none of gates, which belong to attention: that stays in float32.
    """
    layers, gates = {}, set[nn.Module]()
    for prefix, part in model.named_modules():
        if isinstance(part, Fixation):
            gates.update(part.modules())
        if isinstance(part, VideoTransformer | TransformerBlock):
            layers.update(part.named_modules(prefix=prefix))
    return {
        name: layer
        for name, layer in layers.items()
        if is_plain(layer, nn.Linear) and layer not in gates
    }


def round_to_int8(model: nn.Module) -> None:
    """Replace the linear layers of a model by ``Int8Linear``, in place."""
    for name, layer in linear_layers(model).items():
        model.set_submodule(name, Int8Linear(layer))


def bytes_of_weights(model: nn.Module) -> int:
    """Return the bytes of all parameters and buffers, and of weights of 8 bits."""
    tensors = [*model.parameters(), *model.buffers()]
    tensors += [part.packed for part in model.modules() if isinstance(part, Int8Linear)]
    return sum(tensor.nbytes for tensor in tensors)


@torch.no_grad()
def layer_errors(model: nn.Module, run: Callable[[nn.Module], Any]) -> dict[str, float]:
    """Measure what 8 bits cost each linear layer: the error of its output for inputs in float32.

    Args:
        model: As ``optimize_for_inference`` makes it, without ``int8``.
        run: Lets it answer some clips.

    Returns:
        Root of the mean squared error over that of the output, by name of the layer.
    """
    errors: dict[str, float] = {}
    model = without_runs(model)  # else layers run once for each group of clips

    def compare(name: str, layer: nn.Linear, inputs: tuple[Tensor], output: Tensor) -> None:
        error = (Int8Linear(layer)(*inputs) - output).norm().item()
        errors[name] = error and error / output.norm().item()  # 0 of outputs of 0

    hooks = [
        layer.register_forward_hook(partial(compare, name))
        for name, layer in linear_layers(model).items()
    ]
    try:
        run(model)
    finally:
        for hook in hooks:
            hook.remove()
    return errors
