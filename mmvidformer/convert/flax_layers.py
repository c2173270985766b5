"""Flax checkpoints (scenic, Google's ViT): their tensors with the axes of PyTorch's."""

from collections.abc import Mapping

from torch import Tensor

from mmvidformer.convert.keymap import State, strip_prefixes

PREFIXES = ("optimizer/target/", "opt/target/", "params/")
# Other parts of a train state.
TRAIN_STATE = (
    r"(opt|optimizer|opt_state|model_state)(/.*)?",
    r"global_step|rng|accum_train_time|step",
)
# Numbers of a block's parts by flax.linen, which counts each kind separately, and by flax.nn, which
# counted all together.
LINEN = {"attention": "0", "norm": "1", "mlp": "0"}
FLAX_NN = {"attention": "1", "norm": "2", "mlp": "3"}


def read_flax(state: Mapping[str, Tensor]) -> tuple[State, int | None]:
    """Return weights with PyTorch's axes, under names without prefixes, and the number of heads.

    The latter is None if there is no attention.
    """
    state = strip_prefixes(state, PREFIXES)
    queries = (x for name, x in state.items() if name.endswith("/query/kernel") and x.dim() == 3)
    heads = next((query.shape[1] for query in queries), None)
    return {name: _with_axes(name, x) for name, x in state.items()}, heads


def _with_axes(name: str, x: Tensor) -> Tensor:
    if name.endswith("/bias"):
        return x.flatten()  # (n, d) of the heads
    if not name.endswith("/kernel"):
        return x
    if x.dim() in (4, 5):  # (h, w, C, D) of an image model, or (t, h, w, C, D)
        return (x if x.dim() == 5 else x[None]).permute(4, 3, 0, 1, 2)
    if x.dim() == 3:  # (n, d, D) of the output of attention, otherwise (D, n, d)
        x = x.flatten(0, 1) if name.endswith("/out/kernel") else x.flatten(1)
    return x.T if x.dim() == 2 else x
