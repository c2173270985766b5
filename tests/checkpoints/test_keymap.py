"""Key maps."""

import pytest
import torch

from mmvidformer.checkpoints.keymap import apply_rules, read_rows, revert

RULES = read_rows(
    {"embed.w": "stem.w", "blocks.{i}": {"of": "l.{i}.", "qkv.*": "{q,k,v}.*"}, "fc?": "head"}
)


def source(depth: int = 2) -> dict[str, torch.Tensor]:
    state = {"stem.w": torch.randn(3)}
    for i in range(depth):
        for part in "qkv":
            state[f"l.{i}.{part}.weight"] = torch.randn(4, 4)
            state[f"l.{i}.{part}.bias"] = torch.randn(4)
    return state


def test_rules_run_over_all_blocks_and_back() -> None:
    state = source(12)
    result = apply_rules(state, RULES)
    expected = torch.cat([state[f"l.11.{part}.weight"] for part in "qkv"])
    assert torch.equal(result.state["blocks.11.qkv.weight"], expected)
    assert result.missing == ["fc"]

    back = revert(result.state, RULES)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_targets_have_memory_of_their_own() -> None:
    qkv = torch.randn(12, 4)
    result = revert({"qkv.weight": qkv}, read_rows({"qkv.weight": "{q,k,v}.weight"}))
    assert result["q.weight"].untyped_storage().nbytes() == 4 * 4 * 4


@pytest.mark.parametrize(
    ("column", "expected"),
    [(0, [("a/x/kernel", "c.weight"), ("a/x/bias", "c.bias"), ("t", "tok")]),
     (1, [("b.x_weight", "c.weight"), ("b.x_bias", "c.bias"), ("t", "tok")])],
)  # fmt: skip
def test_dialects_are_columns(column: int, expected: list) -> None:
    rows = {"c.*": "$part/x/kernel|bias b.x_*", "tok": "t"}
    rules = read_rows(rows, column, parts={"part": "a"})
    assert [(*rule.sources, *rule.targets) for rule in rules] == expected


def test_missing_and_unknown_names_are_both_listed() -> None:
    state = source()
    state["l.1.z.bias"] = state.pop("l.1.k.bias")
    state["ema"] = torch.ones(1)
    with pytest.raises(ValueError, match=r"missing 1 names \[l\.1\.k\.bias\]; unknown") as error:
        apply_rules(state, RULES, ignored=("ema",))
    assert "l.1.z.bias" in str(error.value) and "ema" not in str(error.value)


def test_ignored_names_are_reported() -> None:
    state = {**source(), "opt.step": torch.ones(1)}
    assert apply_rules(state, RULES, ignored=(r"opt\..*",)).ignored == ["opt.step"]


def test_gap_between_blocks_is_an_error() -> None:
    state = {name.replace("l.1.", "l.7."): value for name, value in source().items()}
    with pytest.raises(ValueError, match=r"missing.*l\.1\.q\.weight.*unknown.*l\.7\.q\.weight"):
        apply_rules(state, RULES)


def test_no_block_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"missing.*l\.0\.q\.weight"):
        apply_rules(source(0), RULES)
