"""A fine-tuned model is shared with what its run measured."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from mmvidformer.apis import Recognizer
from mmvidformer.errors import UserError


@pytest.fixture(scope="module")
def run(own, pretrained, tmp_path_factory) -> Path:
    """A work dir of one epoch of fine-tuning."""
    from mmvidformer.cli import finetune

    work_dir = tmp_path_factory.mktemp("work") / "small"
    options = ["--config", pretrained[0], "--data", own, "--weights", pretrained[1]]
    options += ["--work-dir", str(work_dir), "--epochs", "1", "--batch", "4", "--workers", "0"]
    assert finetune.main(options) == 0
    return work_dir


def test_a_run_becomes_a_folder(run: Path, own: str, main_of, tmp_path: Path, capsys) -> None:
    out = tmp_path / "colors"
    assert main_of("push")([str(run), "--out", str(out), "--license", "apache-2.0"]) == 0
    said = capsys.readouterr().out
    assert f"written: {out}" in said and f"mmvidformer demo {out} VIDEO" in said
    result = json.loads((run / "finetune" / "result.json").read_text())
    (figure,) = result["figures"]
    assert figure["value"] == result["validation"]["acc/top1"] and figure["count"] == 7
    _, metadata, card = re.split(r"(?m)^---$", (out / "README.md").read_text(), maxsplit=2)
    metric = yaml.safe_load(metadata)["model-index"][0]["results"][0]["metrics"][0]
    assert metric == {"type": "accuracy", "value": round(figure["value"], 4)}
    low, high = figure["interval"]
    assert low < figure["value"] < high or figure["value"] in (0, 1)
    assert f"{figure['value']:.3f} | {low:.3f} to {high:.3f} | 7 | chance 0.429" in card
    assert figure["date"] in card and figure["processor"] in card
    assert f"--data {Path(own).name}" in card and own not in card and str(run) not in card
    config, checkpoint = run / "finetune" / "config.py", result["checkpoint"]
    video = str(Path(own) / "val_0.mp4")
    expected = Recognizer(str(config), checkpoint, device="cpu")(video)
    read = Recognizer.from_pretrained(out, device="cpu")(video)
    assert read.labels == expected.labels
    assert read.scores["class"] == pytest.approx(expected.scores["class"], abs=1e-5)
    with pytest.raises(FileExistsError, match="exists already"):
        main_of("push")([str(run), "--out", str(out)])


def test_a_folder_is_converted_with_its_config(
    run: Path, own: str, main_of, tmp_path: Path
) -> None:
    """Also of models whose weights do not tell their sizes."""
    folder, weights, config = (str(tmp_path / name) for name in ("folder", "a.pth", "a.py"))
    assert main_of("push")([str(run), "--out", folder]) == 0
    assert main_of("convert")([folder, weights, "--config-out", config]) == 0
    video = str(Path(own) / "val_0.mp4")
    expected = Recognizer.from_pretrained(folder, device="cpu")(video)
    recognizer = Recognizer(config, weights, device="cpu")
    assert recognizer.names == {"class": ["red", "green", "blue"]}
    read = recognizer(video)
    np.testing.assert_array_equal(read.scores["class"], expected.scores["class"])


def test_a_result_that_was_cut_off_is_named(tmp_path: Path, main_of) -> None:
    result = tmp_path / "finetune" / "result.json"
    result.parent.mkdir()
    result.write_text('{"checkpoint": "best')
    with pytest.raises(UserError, match=r"result\.json must have a JSON object: Unterminated"):
        main_of("push")([str(tmp_path), "--out", str(tmp_path / "out")])


def test_a_run_goes_to_the_hub(run: Path, main_of, web, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert main_of("push")([str(run), "org/colors", "--public"]) == 0
    assert web.repositories == {"org/colors": {"private": False}}
    said = capsys.readouterr().out
    assert "uploaded: hf://org/colors" in said and "license: unknown" in said


def test_a_run_of_train_is_shared_with_its_test(
    make_config, train, test, main_of, tmp_path: Path, capsys
) -> None:
    """What a test of the same checkpoint measured is in the card, and nothing else."""
    config, work_dir = str(make_config("trained", train_cfg=dict(max_epochs=1))), tmp_path / "run"
    train([config, "--work-dir", str(work_dir), "--seed", "0"])
    assert main_of("push")([str(work_dir), "--out", str(tmp_path / "untested")]) == 0
    card = (tmp_path / "untested" / "README.md").read_text()
    assert "Nothing was measured." in card and "| started from | random weights |" in card
    (best,) = work_dir.glob("best_*.pth")
    test([config, str(best), "--work-dir", str(work_dir)])
    results = json.loads((work_dir / "test_1x1_score.json").read_text())["metrics"]
    other = dict(checkpoint="other.pth", metrics={"acc/top1": 0.123})
    (work_dir / "test_2x1_score.json").write_text(json.dumps(other))
    out = tmp_path / "tested"
    assert main_of("push")([str(work_dir), "--out", str(out), "--trained-on", "colors"]) == 0
    card = (out / "README.md").read_text()
    value = f"{results['acc/top1']:.3f}"
    assert f"| not known | test | acc/top1 | {value} | not known | not known | not known |" in card
    assert "0.123" not in card and "| started from | not known |" in card
    assert "| trained on | colors |" in card
    Recognizer.from_pretrained(out, device="cpu")


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["{run}", "a/b/c"], "'a/b/c' is no ORG/NAME"),
        (
            ["{run}/none", "org/name"],
            "none has no config with a checkpoint: RUN must be a work dir",
        ),
    ],
)
def test_mistakes(run: Path, words: list[str], match: str, main_of) -> None:
    with pytest.raises(ValueError, match=match):
        main_of("push")([word.format(run=run) for word in words])


@pytest.mark.parametrize("words", [["RUN"], ["RUN", "org/name", "--out", "folder"]])
def test_a_place_is_needed(words: list[str], main_of, capsys) -> None:
    with pytest.raises(SystemExit):
        main_of("push")(words)
    assert "give either ORG/NAME or --out FOLDER" in capsys.readouterr().err


def test_a_run_without_weights(tmp_path: Path, main_of) -> None:
    (tmp_path / "finetune").mkdir()
    (tmp_path / "finetune" / "result.json").write_text('{"checkpoint": null}')
    with pytest.raises(ValueError, match="names no checkpoint"):
        main_of("push")([str(tmp_path), "org/name"])
    (tmp_path / "finetune" / "result.json").write_text('{"checkpoint": "moved/best.pth"}')
    with pytest.raises(FileNotFoundError, match=r"best\.pth is missing"):
        main_of("push")([str(tmp_path), "org/name"])
