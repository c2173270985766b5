"""Low-rank updates of linear layers."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mmvidformer.layers.linear import LoraLinear, add_lora, merge_lora
from mmvidformer.models import TimeSformer, VideoTransformer
from mmvidformer.models.fast.inference import optimize_for_inference
from tests.models.tiny import perturb

SIZES = dict(arch=dict(embed_dims=24, depth=2, num_heads=2), img_size=32, clip_len=4)


class DoubleBias(nn.Linear):
    """A subclass with a forward pass of its own, as that of a projection without key bias."""

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.weight, 2 * self.bias)


@pytest.fixture
def model() -> TimeSformer:
    """A frozen model with updates that are not zero, nor is the fc after attention over time."""
    torch.manual_seed(0)
    model = TimeSformer(lora=dict(rank=2, alpha=6.0), frozen_stages=2, **SIZES)
    for value in model.parameters():
        if not value.any():
            nn.init.normal_(value, std=0.3)
    return model.eval()


@pytest.fixture
def clip() -> Tensor:
    return torch.randn(2, 3, 4, 32, 32, generator=torch.Generator().manual_seed(1))


def test_updates_alone_are_trained(model, clip) -> None:
    trained = [name for name, value in model.named_parameters() if value.requires_grad]
    assert len(trained) == 2 * 5 * 2  # A and B of five layers of two blocks
    assert all(name.endswith(("lora_a", "lora_b")) for name in trained)
    model.train()(clip)[:, 0].sum().backward()  # their sum is constant
    assert all(model.get_parameter(name).grad.any() for name in trained)


def test_attention_over_time_learns_although_it_starts_at_zero(clip: Tensor) -> None:
    model = TimeSformer(lora=dict(rank=2), pool="mean", **SIZES)
    optimizer = torch.optim.SGD([x for x in model.parameters() if x.requires_grad], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model.train()(clip)[:, 0].sum().backward()
        optimizer.step()
    updates = [x for name, x in model.named_parameters() if ".time." in name and "lora_b" in name]
    assert len(updates) == 6 and all(x.any() for x in updates)


@pytest.mark.parametrize("kind", [nn.Linear, DoubleBias])
def test_formula_and_merging(kind: type[nn.Linear]) -> None:
    net = nn.Sequential(kind(5, 7))
    x = torch.randn(3, 5)
    plain = net(x)
    add_lora(net, rank=2, alpha=3.0, layers=["0"])
    layer = net[0]
    assert torch.equal(net(x), plain)
    nn.init.normal_(layer.lora_b)
    updated = net(x)
    torch.testing.assert_close(updated, plain + 1.5 * x @ layer.lora_a.T @ layer.lora_b.T)
    assert (updated - plain).abs().max() > 0.1
    merged = copy.deepcopy(layer).merged()
    assert type(merged) is kind and list(merged.state_dict()) == ["weight", "bias"]
    torch.testing.assert_close(merged(x), updated, rtol=0, atol=1e-6)


def test_parts_of_recent_models(clip) -> None:
    """Biases of queries and values alone, and LayerScale, which inference folds after merging."""
    torch.manual_seed(0)
    options = dict(qkv_bias="qv", layer_scale=0.5, mlp="swiglu")
    model = VideoTransformer(lora=dict(layers=["qkv", "proj", "fc1"]), **options, **SIZES).eval()
    for value in model.parameters():
        if not value.any():
            nn.init.normal_(value, std=0.3)
    with torch.no_grad():
        fast = optimize_for_inference(model)(clip)
        torch.testing.assert_close(fast, model(clip), rtol=0, atol=2e-6)


def test_merged_for_inference(model, clip) -> None:
    fast = optimize_for_inference(model, share_weights=True)
    with torch.no_grad():
        wanted = model(clip)
        torch.testing.assert_close(fast(clip), wanted, rtol=0, atol=2e-6)
    assert not any(isinstance(part, LoraLinear) for part in fast.modules())
    # Not where a hook acts on the layer.
    hooked = model.encoders[0].blocks[0].sublayers["time"].attn.qkv
    hooked.register_forward_hook(lambda *_: None)
    kept = [p for p in optimize_for_inference(model).modules() if isinstance(p, LoraLinear)]
    assert len(kept) == 1


@torch.no_grad()
def test_updates_before_a_gate_are_merged(clip: Tensor) -> None:
    """The gate multiplies the output of the layer and of its update."""
    torch.manual_seed(0)
    block = [dict(pattern="causal_time", fc="gated"), dict(pattern="space")]
    lora = dict(rank=2, layers=["qkv", "proj", "fc"])
    model = VideoTransformer(block=block, pool="none", lora=lora, **SIZES).double().eval()
    clip = clip.double()
    for value in model.parameters():
        if not value.any():
            nn.init.normal_(value, std=0.3)
    expected = model(clip)
    torch.testing.assert_close(optimize_for_inference(model)(clip), expected)
    state = model.state_dict()
    merge_lora(state)
    plain = VideoTransformer(block=block, pool="none", **SIZES).double().eval()
    plain.load_state_dict(state)
    torch.testing.assert_close(plain(clip), expected)


@pytest.mark.parametrize(("frozen_stages", "others"), [(-1, False), (0, True), (2, False)])
def test_the_rest_is_frozen_unless_stages_are_named(frozen_stages: int, others: bool) -> None:
    model = TimeSformer(lora=dict(rank=2), frozen_stages=frozen_stages, **SIZES)
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    updates = {name for name in trained if name.endswith(("lora_a", "lora_b"))}
    assert len(updates) == 20 and bool(trained - updates) == others
    assert not model.embed.proj.weight.requires_grad


def test_weights_with_and_without_updates(model, clip) -> None:
    plain, other = TimeSformer(**SIZES).eval(), TimeSformer(lora=dict(rank=2), **SIZES).eval()
    state = model.state_dict()
    other.load_state_dict(state)
    assert torch.equal(other(clip), model(clip))  # and the factor is that of the weights
    merge_lora(state)
    plain.load_state_dict(state)
    torch.testing.assert_close(plain(clip), model(clip), rtol=0, atol=2e-6)
    other.load_state_dict(state)  # resets the updates
    assert torch.equal(other(clip), plain(clip))


def test_wrong_layers() -> None:
    with pytest.raises(KeyError, match="linear layers for LoRA are .*fc1, .* got 'mlp'"):
        TimeSformer(lora=dict(layers=["qkv", "mlp"]), **SIZES)
    with pytest.raises(ValueError, match="rank must be at least 1, got 0"):
        TimeSformer(lora=dict(rank=0), **SIZES)


def test_pickled_models(clip: Tensor, tmp_path: Path) -> None:
    """As ``torch.save(model)`` does, and processes that are spawned."""
    options = dict(rank=2, layers=["qkv", "fc1"])
    models = [
        perturb(VideoTransformer(qkv_bias=bias, lora=options, **SIZES).eval())
        for bias in (True, "qv")
    ]
    torch.save(models, tmp_path / "models.pt")
    read = """
import sys
import torch
models = torch.load(sys.argv[1], weights_only=False)
clip = torch.load(sys.argv[2])
torch.save([model(clip) for model in models], sys.argv[3])
"""
    torch.save(clip, tmp_path / "clip.pt")
    paths = [str(tmp_path / name) for name in ("models.pt", "clip.pt", "out.pt")]
    subprocess.run([sys.executable, "-c", read, *paths], check=True)
    for model, found in zip(models, torch.load(paths[-1]), strict=True):
        torch.testing.assert_close(found, model(clip))
        other = copy.deepcopy(model)
        layers = [one.encoders[0].blocks[0].sublayers["joint"].attn.qkv for one in (model, other)]
        assert type(layers[0]) is type(layers[1])
        torch.testing.assert_close(optimize_for_inference(other)(clip), model(clip))


def test_a_layer_has_updates_once(model: TimeSformer, clip: Tensor) -> None:
    expected = model(clip)
    with pytest.raises(ValueError, match="layer encoders.0.*attn.qkv has LoRA already; add it on"):
        add_lora(model, layers=["fc1", "qkv"])
    assert torch.equal(model(clip), expected)
    assert not any("fc1.lora" in name for name in model.state_dict())  # nothing was changed
    add_lora(model, layers=["fc1"])
    assert torch.equal(model(clip), expected)
