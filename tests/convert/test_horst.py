from pathlib import Path

import pytest
import torch

from mmvidformer.convert import convert_file, recognize
from mmvidformer.convert.horst import classifier_rules, from_horst, layer_rules
from mmvidformer.convert.keymap import apply_rules
from mmvidformer.models import Horst
from mmvidformer.models.horst.classifiers import CLASSIFIERS

TASKS = {"verb": 3, "noun": 4, "action": 6}
State = dict[str, torch.Tensor]


def ours(classifier: str | None = None, **options: object) -> State:
    """Return random weights of a neck, and of a classifier if it is named."""
    torch.manual_seed(0)
    state = {f"neck.{k}": v for k, v in Horst(3, [4, 8, 8], **options).state_dict().items()}
    if classifier:
        head = CLASSIFIERS[classifier](8, TASKS)
        state |= {f"cls_head.classifier.{k}": v for k, v in head.state_dict().items()}
    return {k: torch.randn_like(v) if v.is_floating_point() else v for k, v in state.items()}


def official(state: State, blocks: list[int] | None = None) -> State:
    """Rename weights as the official code does; ``blocks`` are the layers of each block."""
    count = len({name.split(".")[2] for name in state if name.startswith("neck.layers.")})
    ids = [f"b{b}l{i}" for b, size in enumerate(blocks or [1] * count) for i in range(size)]
    rules = [
        rule
        for number, name in enumerate(ids)
        for rule in layer_rules(f"layers.{name}.", f"neck.layers.{number}.")
    ]
    if "cls_head.classifier.action.weight" in state:
        unrolling = "cls_head.classifier.unroll.weight_ih_l0" in state
        rules += classifier_rules("unrolling" if unrolling else "linear")
    return apply_rules(state, [rule.reversed() for rule in rules]).state


@pytest.mark.parametrize("classifier", [None, "linear", "unrolling"])
@pytest.mark.parametrize("blocks", [None, [1, 2]])
def test_round_trip(classifier: str | None, blocks: list[int] | None) -> None:
    state = ours(classifier)
    theirs = official(state, blocks)
    last = "layers.b1l1" if blocks else "layers.b2l0"
    assert theirs[f"{last}.mha.k_pre_f.0.weight"].shape == (8, 16, 3, 3)
    assert recognize(theirs) == "horst"
    back = from_horst(theirs)
    assert back.state.keys() == state.keys()
    for name, value in state.items():
        assert torch.equal(back.state[name], value)


def test_blocks_are_sorted_by_number() -> None:
    """``b10`` comes after ``b2``."""
    torch.manual_seed(0)
    stack = Horst(2, [4] * 11)
    state = {f"neck.{name}": value for name, value in stack.state_dict().items()}
    back = from_horst(official(state)).state
    assert all(torch.equal(back[name], value) for name, value in state.items())


def test_single_layer_and_unused_layers() -> None:
    theirs = {
        name.removeprefix("layers.b0l0."): value
        for name, value in official(ours()).items()
        if name.startswith("layers.b0l0.")
    }
    theirs |= {"agg_f.0.weight": torch.zeros(4, 4, 1, 1, 2), "mha.v_post_f.1.bias": torch.zeros(4)}
    result = from_horst(theirs)
    assert result.ignored == ["layers.0.agg_f.0.weight", "layers.0.mha.v_post_f.1.bias"]
    assert {name.split(".")[2] for name in result.state} == {"0"}


def test_missing_and_unknown_names_are_listed() -> None:
    theirs = official(ours())
    theirs["layers.b0l0.extra"] = theirs.pop("layers.b0l0.mha.sf_K.f.0.bias")
    with pytest.raises(ValueError, match=r"layers\.0\.mha\.sf_K\.f\.0\.bias.*unknown.*extra"):
        from_horst(theirs)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"variant": "paper"},
        {"attention": "spatial", "key_value": "e|h"},
        {"attention": "joint", "variant": "paper", "key_value": "e|h"},
    ],
)
def test_converting_a_file_reports_the_arguments(options: dict, tmp_path: Path) -> None:
    state = ours(**options)
    torch.save({"state_dict": state if options else official(state)}, tmp_path / "a.pth")
    report = convert_file(tmp_path / "a.pth", tmp_path / "b.pth")
    assert ("HORST (official)" in report) == (not options)
    converted = torch.load(tmp_path / "b.pth", weights_only=True)
    settings = converted["meta"]["neck"]
    assert settings["channels"] == [4, 8, 8]
    assert {name: settings[name] for name in options} == options
    model = Horst(**settings)
    model.load_state_dict(
        {name.removeprefix("neck."): value for name, value in converted["state_dict"].items()}
    )


def test_converting_a_file_with_only_a_classifier(tmp_path: Path) -> None:
    theirs = official({k: v for k, v in ours("unrolling").items() if k.startswith("cls_head")})
    torch.save(theirs, tmp_path / "a.pth")
    report = convert_file(tmp_path / "a.pth", tmp_path / "b.pth")
    assert "HORST (official)" in report and "cls_head: {}" in report
    converted = torch.load(tmp_path / "b.pth", weights_only=True)["state_dict"]
    assert all(torch.equal(converted[k], v) for k, v in ours("unrolling").items() if k in converted)
    assert len(converted) == len(theirs)
