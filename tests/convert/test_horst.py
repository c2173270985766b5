from pathlib import Path

import pytest
import torch

from mmvidformer.convert.describe import settings_of
from mmvidformer.convert.detect import recognise
from mmvidformer.convert.files import convert_file
from mmvidformer.convert.horst import from_horst, to_horst
from mmvidformer.convert.keymap import Conversion
from mmvidformer.models import Horst
from mmvidformer.models.horst.classifiers import CLASSIFIERS

TASKS = {"verb": 3, "noun": 4, "action": 6}
State = dict[str, torch.Tensor]


def ours(classifier: str | None = None, **options: object) -> State:
    """Random weights of a neck, and of a classifier if it is named."""
    torch.manual_seed(0)
    state = {f"neck.{k}": v for k, v in Horst(3, [4, 8, 8], **options).state_dict().items()}
    if classifier:
        head = CLASSIFIERS[classifier](8, TASKS)
        state |= {f"cls_head.classifier.{k}": v for k, v in head.state_dict().items()}
    return {k: torch.randn_like(v) if v.is_floating_point() else v for k, v in state.items()}


@pytest.mark.parametrize("classifier", [None, "linear", "unrolling"])
@pytest.mark.parametrize("blocks", [None, [1, 2]])
def test_round_trip(classifier: str | None, blocks: list[int] | None) -> None:
    state = ours(classifier)
    theirs = to_horst(state, blocks)
    last = "layers.b1l1" if blocks else "layers.b2l0"
    assert theirs[f"{last}.mha.k_pre_f.0.weight"].shape == (8, 16, 3, 3)
    assert recognise(theirs) == "horst"
    back = from_horst(theirs)
    assert back.state.keys() == state.keys()
    for name, value in state.items():
        assert torch.equal(back.state[name], value)


def test_many_blocks_come_in_the_order_of_their_numbers() -> None:
    """b10 after b2, as numbers and not as text go."""
    torch.manual_seed(0)
    stack = Horst(2, [4] * 11)
    state = {f"neck.{name}": value for name, value in stack.state_dict().items()}
    back = from_horst(to_horst(state)).state
    assert all(torch.equal(back[name], value) for name, value in state.items())


def test_layer_alone_and_unused_layers() -> None:
    theirs = {
        name.removeprefix("layers.b0l0."): value
        for name, value in to_horst(ours()).items()
        if name.startswith("layers.b0l0.")
    }
    theirs |= {"agg_f.0.weight": torch.zeros(4, 4, 1, 1, 2), "mha.v_post_f.1.bias": torch.zeros(4)}
    result = from_horst(theirs)
    assert result.ignored == ["layers.0.agg_f.0.weight", "layers.0.mha.v_post_f.1.bias"]
    assert {name.split(".")[2] for name in result.state} == {"0"}


def test_names_that_do_not_fit_and_wrong_blocks() -> None:
    theirs = to_horst(ours())
    theirs["layers.b0l0.extra"] = theirs.pop("layers.b0l0.mha.sf_K.f.0.bias")
    with pytest.raises(ValueError, match=r"layers\.0\.mha\.sf_K\.f\.0\.bias.*unknown.*extra"):
        from_horst(theirs)
    with pytest.raises(ValueError, match=r"blocks of \[1, 1\] layers are not the 3"):
        to_horst(ours(), [1, 1])


@pytest.mark.parametrize("options", [{"variant": "paper"}, {"attention": "joint"}])
def test_variants_that_the_official_code_lacks(options: dict) -> None:
    with pytest.raises(ValueError, match="does not fit the key map"):
        to_horst(ours(**options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"variant": "paper"},
        {"attention": "spatial", "key_value": "e|h"},
        {"attention": "joint", "variant": "paper", "key_value": "e|h"},
    ],
)
def test_the_command_tells_the_arguments(options: dict, tmp_path: Path) -> None:
    state = ours(**options)
    torch.save({"state_dict": state if options else to_horst(state)}, tmp_path / "a.pth")
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


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("form", ["official", "paper"])
def test_arguments_of_a_classifier(classifier: str, form: str) -> None:
    weights = CLASSIFIERS[classifier](8, TASKS, form).state_dict()
    result = Conversion({f"cls_head.classifier.{name}": value for name, value in weights.items()})
    part, settings = settings_of(result)
    assert part == "cls_head"
    expected = {"tasks": TASKS, "in_channels": 8, "classifier": classifier, "form": form}
    assert settings == expected


def test_the_command_takes_a_classifier_alone(tmp_path: Path) -> None:
    theirs = to_horst({k: v for k, v in ours("unrolling").items() if k.startswith("cls_head")})
    torch.save(theirs, tmp_path / "a.pth")
    report = convert_file(tmp_path / "a.pth", tmp_path / "b.pth")
    assert f"cls_head: {{'tasks': {TASKS}, 'in_channels': 8, 'classifier': 'unrolling'" in report
