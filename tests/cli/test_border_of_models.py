"""A run of ``finetune`` and a HuggingFace folder answer where MMAction2 is not installed."""

import json
from pathlib import Path

import pytest
import torch

from mmvidformer.apis import Recognizer
from tests.test_border import VIDEO, run

# What each command writes.
WRITTEN = {
    "demo MODEL VIDEO --csv a.csv --json a.jsonl": "a.csv",
    "label MODEL VIDEO --out rows": "rows/*.parquet",
    "features MODEL VIDEO --out features": "features/*",
    "export MODEL --out a.pt2": "a.pt2",
}


@pytest.fixture(scope="module")
def fine_tuned(main_of, own, tmp_path_factory) -> list[str]:
    """Config and checkpoint of a run of the quick start's model."""
    folder = tmp_path_factory.mktemp("run")
    options = ["--config", "camera_motion", "--data", own, "--work-dir", str(folder)]
    options += ["--epochs", "1", "--batch", "4", "--workers", "0"]
    assert main_of("finetune")(options) == 0
    result = json.loads((folder / "finetune" / "result.json").read_text())
    return [str(folder / "finetune" / "config.py"), result["checkpoint"]]


@pytest.fixture(scope="module")
def of_transformers(tmp_path_factory) -> list[str]:
    """A folder that transformers has written."""
    from transformers import (
        TimesformerConfig,
        TimesformerForVideoClassification,
        VivitImageProcessor,
    )

    folder = tmp_path_factory.mktemp("theirs")
    torch.manual_seed(0)
    config = TimesformerConfig(
        image_size=32,
        patch_size=16,
        num_frames=4,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=5,
    )
    TimesformerForVideoClassification(config).save_pretrained(folder)
    VivitImageProcessor(size={"shortest_edge": 36}, crop_size=32).save_pretrained(folder)
    return [str(folder)]


@pytest.fixture(scope="module")
def answers(fine_tuned, of_transformers, tmp_path_factory) -> dict[str, tuple]:
    """The words of each model, where its commands wrote, and its scores; from one process."""
    sources = dict(fine_tuned=fine_tuned, of_transformers=of_transformers)
    folders = {name: str(tmp_path_factory.mktemp(name)) for name in sources}
    code = f"""
        if __name__ == "__main__":
            import json, os
            from mmvidformer.__main__ import main
            from mmvidformer.apis import Recognizer

            found = {{}}
            for name, words in {sources}.items():
                os.chdir({folders}[name])
                scores = Recognizer(*words, device="cpu")({str(VIDEO)!r}).scores
                found[name] = {{task: values.tolist() for task, values in scores.items()}}
                for command in {[*WRITTEN]}:
                    command = command.replace("MODEL", " ".join(words))
                    if main(command.replace("VIDEO", {str(VIDEO)!r}).split()):
                        sys.exit(command)
            print("\\n" + json.dumps(found))
    """
    found = json.loads(run(code, tmp_path_factory.mktemp("cwd")).splitlines()[-1])
    return {name: (sources[name], Path(folders[name]), found[name]) for name in sources}


@pytest.mark.parametrize("source", ["fine_tuned", "of_transformers"])
def test_a_model_answers(source: str, answers: dict) -> None:
    """With the scores that it gives beside the whole stack."""
    words, folder, found = answers[source]
    expected = Recognizer(*words, device="cpu")(str(VIDEO))
    assert found == {name: pytest.approx(row, abs=1e-6) for name, row in expected.scores.items()}
    for command, results in WRITTEN.items():
        assert [*folder.glob(results)], command
    answer = json.loads((folder / "a.jsonl").read_text().splitlines()[0])
    assert answer["label"] == expected.label, answer
