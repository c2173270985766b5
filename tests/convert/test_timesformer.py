import pytest
import torch

from mmvidformer.convert.timesformer import from_timesformer, to_timesformer
from mmvidformer.models import TimeSformer

TYPES = ["space_only", "joint_space_time", "divided_space_time"]


def ours(attention: str) -> dict[str, torch.Tensor]:
    arch = {"embed_dims": 16, "depth": 2, "num_heads": 2}
    model = TimeSformer(arch, attention, img_size=(16, 24), clip_len=3, patch_size=8)
    state = {f"backbone.{name}": torch.randn_like(p) for name, p in model.state_dict().items()}
    head = {"cls_head.fc_cls.weight": torch.randn(5, 16), "cls_head.fc_cls.bias": torch.randn(5)}
    return {**state, **head}


@pytest.mark.parametrize("attention", TYPES)
def test_round_trip(attention: str) -> None:
    state = ours(attention)
    official = to_timesformer(state, attention)
    assert all(name.startswith("model.") for name in official)
    back = from_timesformer(official, grid=(1, 2, 3))
    assert back.scheme == attention
    assert back.state.keys() == state.keys()
    for name, value in state.items():
        torch.testing.assert_close(back.state[name], value, atol=0, rtol=0)


def test_missing_and_unknown_names_are_listed() -> None:
    official = to_timesformer(ours("divided_space_time"), "divided_space_time")
    official["model.extra.weight"] = official.pop("model.blocks.1.temporal_fc.bias")
    with pytest.raises(ValueError, match=r"temporal_fc\.bias.*unknown.*extra\.weight"):
        from_timesformer(official, grid=(1, 2, 3))
    with pytest.raises(ValueError, match="no square frame"):
        from_timesformer(to_timesformer(ours("space_only"), "space_only"))
