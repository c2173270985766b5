"""Every model compiles to one graph, which computes the same."""

import copy
from types import SimpleNamespace

import pytest
import torch
from mmengine.registry import DefaultScope
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

from mmvidformer.layers import KERNELS, ROPES
from mmvidformer.models import TimeSformer, feature_fixation, timesformer, vivit
from mmvidformer.models.fast.compiled_blocks import compile_blocks
from mmvidformer.registry import HOOKS, MODELS
from tests.models.tiny import PARTS, needs_one_graph

ARCH = dict(embed_dims=16, depth=1, num_heads=2)
CLIP = dict(arch=ARCH, img_size=16, clip_len=4)
LONG_CLIP = 6  # frames
TUBES = dict(tubelet=(2, 8, 8))
ROPE = dict(stem=TUBES, arch={**ARCH, "num_heads": 1})  # wide enough for all axes


def of(name: str, **options: object) -> dict:
    return dict(type=f"mmvidformer.{name}", **{**CLIP, **options})


MODEL_LIST = {
    **{
        f"timesformer {s}": of(
            "TimeSformer", scheme=s, stem=dict(tubelet=(1, 8, 8)), drop_path_rate=0.2
        )
        for s in timesformer.SCHEMES
    },
    **{f"vivit {s}": of("ViViT", scheme=s, stem=TUBES) for s in vivit.SCHEMES},
    **{
        f"fixation {s}": of("FeatureFixationTransformer", scheme=s)
        for s in feature_fixation.SCHEMES
    },
    **{
        f"fixation {k}": of("FeatureFixationTransformer", kernel=k)
        for k in KERNELS
        if k not in ("linear", "recurrence")  # the latter is causal
    },
    **{f"rope {name}": of("VideoTransformer", rope=name, **ROPE, **PARTS) for name in ROPES},
    "attentive pooling": dict(
        type="mmvidformer.AttentiveHead", num_classes=3, in_channels=16, num_heads=2, depth=1
    ),
    "recomputed": of("FeatureFixationTransformer", with_cp="activations"),
    "causal": of(  # refuses clips that are longer than its table
        "VideoTransformer",
        block=[dict(pattern="causal_time", kernel="linear")],
        pool="none",
        clip_len=LONG_CLIP,
    ),
    "checkpointed": of(
        "TimeSformer", stem=dict(tubelet=(1, 8, 8)), drop_path_rate=0.2, with_cp=True
    ),
    "horst": dict(type="mmvidformer.Horst", in_channels=4, channels=[4, 4], order=2),
}


def build(cfg: dict) -> nn.Module:
    torch.manual_seed(0)
    torch.compiler.reset()
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(copy.deepcopy(cfg))
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model


def run(model: nn.Module, clip: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Output, and gradients of all parameters where it has any."""
    torch.manual_seed(1)
    output = model(clip)
    output = output if isinstance(output, Tensor) else torch.stack(tuple(output[0]))
    if not torch.is_grad_enabled():
        return output, {}
    model.zero_grad()
    output.square().sum().backward()
    return output.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


def clips(cfg: dict) -> list[Tensor]:
    """Clips of two sizes."""
    torch.manual_seed(2)
    if cfg["type"].endswith("Head"):
        return [torch.randn(2, 2, 2, 2, 16), torch.randn(2, 3, 2, 3, 16)]
    if "neck" in cfg or cfg["type"].endswith("Horst"):
        return [torch.randn(2, 3, 4, 4, 4), torch.randn(2, 3, 4, 6, 4)]
    return [torch.randn(2, 3, 4, 16, 16), torch.randn(2, 3, LONG_CLIP, 16, 24)]


def compare(cfg: dict, backend: str, training: bool) -> None:
    plain = build(cfg).train(training)
    compiled = copy.deepcopy(plain)
    compiled.compile(fullgraph=True, backend=backend, dynamic=False)
    with torch.set_grad_enabled(training):
        for clip in clips(cfg):
            expected, gradients = run(plain, clip)
            found, compiled_gradients = run(compiled, clip)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
            for name, gradient in gradients.items():
                scale = gradient.abs().max().item()
                torch.testing.assert_close(
                    compiled_gradients[name], gradient, atol=1e-5 * max(scale, 1), rtol=1e-5
                )


@pytest.mark.parametrize(
    "name", ["timesformer divided_space_time", "rope vjepa2", "attentive pooling"]
)
@needs_one_graph
def test_one_graph(name: str) -> None:
    compare(MODEL_LIST[name], "eager", training=True)


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("name", MODEL_LIST)
@needs_one_graph
def test_one_graph_of_all_models(name: str, training: bool) -> None:
    compare(MODEL_LIST[name], "eager", training)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["timesformer divided_space_time", "vivit spacetime", "checkpointed", "horst"]
)
@needs_one_graph
def test_one_graph_through_autograd(name: str) -> None:
    compare(MODEL_LIST[name], "aot_eager", training=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["timesformer divided_space_time", "vivit factorized_encoder"])
@needs_one_graph
def test_a_free_size_is_compiled_once(name: str) -> None:
    model = build(MODEL_LIST[name]).eval()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(copy.deepcopy(model), fullgraph=True, dynamic=True, backend=counter)
    with torch.no_grad():
        for size in ((2, 3, 6, 24, 32), (3, 3, 8, 40, 48)):
            clip = torch.randn(size)
            torch.testing.assert_close(compiled(clip), model(clip), atol=1e-5, rtol=1e-5)
    assert counter.frame_count == 1


@torch._dynamo.config.patch(cache_size_limit=2)  # then a function is given up
@needs_one_graph
def test_blocks_compile_for_themselves() -> None:
    """One graph each, as they differ in stochastic depth, and one more without gradients."""
    depth = 3
    torch.compiler.reset()
    options = dict(
        CLIP, arch=dict(ARCH, depth=depth), stem=dict(tubelet=(1, 8, 8)), drop_path_rate=0.2
    )
    model = TimeSformer(**options).train()
    plain, clip, counter = copy.deepcopy(model), torch.randn(2, 3, 4, 16, 16), CompileCounter()
    compile_blocks(model, backend=counter, fullgraph=True)
    gradients = []
    for part in (model, plain, model):
        torch.manual_seed(0)
        part.zero_grad()
        part(clip).square().sum().backward()
        gradients.append({name: weight.grad for name, weight in part.named_parameters()})
    assert counter.frame_count == depth
    torch.testing.assert_close(gradients[0], gradients[1])
    torch.testing.assert_close(gradients[2], gradients[1])
    with torch.no_grad():
        torch.testing.assert_close(model.eval()(clip), plain.eval()(clip))
    assert counter.frame_count <= 2 * depth
    assert copy.deepcopy(model).state_dict().keys() == plain.state_dict().keys()
    with pytest.raises(ValueError, match="Linear has no TransformerBlock"):
        compile_blocks(nn.Linear(1, 1))


def test_a_hook_compiles_blocks_before_training() -> None:
    model = TimeSformer(**CLIP, stem=dict(tubelet=(1, 8, 8)))
    hook = HOOKS.build(dict(type="mmvidformer.CompileBlocksHook", backend="eager"))
    hook.before_train(SimpleNamespace(model=model))
    assert all(block._compiled_call_impl for block in model.encoders[0].blocks)
