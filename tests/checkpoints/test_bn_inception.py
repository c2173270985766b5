from pathlib import Path

import pytest
import torch

from mmvidformer.checkpoints import convert_file
from mmvidformer.checkpoints.formats import from_bn_inception
from mmvidformer.models import BNInception


@pytest.fixture(scope="module")
def net() -> BNInception:
    torch.manual_seed(0)
    net = BNInception()
    for name, buffer in net.named_buffers():
        if name.endswith("running_var"):
            buffer.uniform_(0.5, 2.0)
    return net.eval()


@pytest.fixture(scope="module")
def public(net: BNInception) -> dict[str, torch.Tensor]:
    """Return the weights with the names in RULSTM's TSN checkpoint."""
    state = {f"module.base_model.{name}": value for name, value in net.state_dict().items()}
    return state | {
        "module.new_fc.weight": torch.zeros(3, 1024),
        "module.new_fc.bias": torch.zeros(3),
    }


def test_names_and_shapes_of_the_public_file(public: dict[str, torch.Tensor]) -> None:
    """69 convolutions with bias, each with a batch norm; 1024 channels at the end."""
    stem = "module.base_model."
    assert len(public) == 69 * 7 + 2
    for name, shape in {
        "conv1_7x7_s2.weight": (64, 3, 7, 7),
        "conv2_3x3_reduce_bn.running_mean": (64,),
        "inception_3c_double_3x3_2.weight": (96, 96, 3, 3),
        "inception_4e_3x3.bias": (192,),
        "inception_5a_1x1.weight": (352, 1056, 1, 1),
        "inception_5b_pool_proj.weight": (128, 1024, 1, 1),
    }.items():
        assert public[stem + name].shape == shape
    assert f"{stem}inception_3c_1x1.weight" not in public


def test_backbone_starts_from_the_file(
    net: BNInception, public: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    torch.save({"state_dict": public, "epoch": 3, "arch": "BNInception"}, tmp_path / "a.pth.tar")
    other = BNInception(init_from=tmp_path / "a.pth.tar")
    other.init_weights()
    frames = torch.randn(1, 3, 64, 64)
    assert torch.equal(other(frames), net(frames))

    report = convert_file(tmp_path / "a.pth.tar", tmp_path / "b.pth")
    assert "format: BN-Inception" in report
    assert "ignored: new_fc.weight, new_fc.bias" in report
    converted = torch.load(tmp_path / "b.pth", weights_only=True)["state_dict"]
    assert converted.keys() == {f"backbone.{name}" for name in net.state_dict()}
    assert "format: mmvidformer" in convert_file(tmp_path / "b.pth", tmp_path / "c.pth")
    with pytest.raises(ValueError, match=r"no model like .*a\.pth\.tar \(BN-Inception"):
        convert_file(tmp_path / "a.pth.tar", tmp_path / "hf", to="huggingface")


def test_missing_and_unknown_names_are_listed(
    public: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    state = dict(public)
    state["odd"] = state.pop("module.base_model.conv2_3x3.bias")
    torch.save(state, tmp_path / "a.pth")
    with pytest.raises(RuntimeError, match=r'Missing .*: "conv2_3x3\.bias"(.|\n)*Unexpected .*odd'):
        BNInception(init_from=tmp_path / "a.pth").init_weights()


def test_files_without_num_batches_tracked(public: dict[str, torch.Tensor]) -> None:
    old = {name: value for name, value in public.items() if "num_batches" not in name}
    state = from_bn_inception(old).state
    weights = {name.removeprefix("backbone."): value for name, value in state.items()}
    BNInception().load_state_dict(weights)
