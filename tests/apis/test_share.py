"""A recognizer that is saved answers alike when it is loaded, here and in transformers."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
import yaml
from mmengine.config import Config

from mmvidformer import get_config
from mmvidformer.apis import Recognizer
from mmvidformer.apis.model_card import Facts, Figure
from mmvidformer.apis.saved_config import saved_config
from mmvidformer.checkpoints.published import by_name
from mmvidformer.config import clip_shape
from mmvidformer.errors import UserError
from tests.tiny_configs import shrink

FAMILIES = {  # shipped config: transformers' model, if it has one
    "timesformer_b_k400": "TimesformerForVideoClassification",
    "vivit_st_k400": "VivitForVideoClassification",
    "videomae_b_k400": "VideoMAEForVideoClassification",
    "vjepa2_l_sthv2": "VJEPA2ForVideoClassification",
    "vivit_fe_verb_noun_motion": "",
    "feature_fixation_k400": "",
}


SLOW = ("vjepa2_l_sthv2", "feature_fixation_k400")
PARAMS = [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in FAMILIES]


def make_recognizer(name: str) -> Recognizer:
    """A tiny model of a shipped config, with random weights that are not zero."""
    cfg = shrink(get_config(name))
    head = cfg.model.cls_head
    if "tasks" in head:
        head.tasks = dict(noun=4, verb=3)
        names = {"noun": ["door", "lid", "cup", "a|b"], "verb": ["open", "close", "cut"]}
    else:
        head.num_classes = 3
        names = {"class": ["red", "green", "blue"]}
    torch.manual_seed(0)
    recognizer = Recognizer(cfg, None, "cpu", names, clips=1)
    with torch.no_grad():
        for parameter in recognizer.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return recognizer


@pytest.fixture(scope="module")
def video() -> np.ndarray:
    """Frames of random colors."""
    return np.random.default_rng(0).integers(0, 256, (12, 40, 48, 3), dtype=np.uint8)


@pytest.fixture(scope="module", params=PARAMS)
def saved(request, tmp_path_factory) -> tuple[str, Recognizer, Path]:
    """Name of the config, the recognizer, and its folder."""
    recognizer = make_recognizer(request.param)
    folder = tmp_path_factory.mktemp("share") / "model"
    recognizer.save_pretrained(folder)
    return request.param, recognizer, folder


def test_the_answers_are_the_same(saved, video: np.ndarray) -> None:
    _, recognizer, folder = saved
    loaded = Recognizer.from_pretrained(folder, device="cpu", clips=1)
    expected, read = recognizer(video, fps=8.0), loaded(video, fps=8.0)
    assert loaded.names == recognizer.names
    assert read.labels == expected.labels
    for task, scores in expected.scores.items():
        assert np.ptp(scores) > 1e-4
        np.testing.assert_allclose(read.scores[task], scores, atol=1e-5)


def test_transformers_loads_what_it_knows(saved) -> None:
    name, recognizer, folder = saved
    config = json.loads((folder / "config.json").read_text())
    assert config.get("architectures", [""]) == [FAMILIES[name]]
    if not FAMILIES[name]:
        return
    theirs, info = transformers.AutoModelForVideoClassification.from_pretrained(
        folder, output_loading_info=True
    )
    missing = [key for key in info["missing_keys"] if not key.startswith("vjepa2.predictor.")]
    assert not missing and not info["unexpected_keys"]  # classifiers do not run the predictor
    assert theirs.config.id2label == {0: "red", 1: "green", 2: "blue"}
    clip = torch.randn(2, *clip_shape(recognizer.cfg), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = theirs.eval()(clip.transpose(1, 2)).logits
        expected = recognizer.model.cls_head(recognizer.model.backbone(clip))
    assert expected.std() > 1e-3
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


def read_card(folder: Path) -> tuple[dict, str]:
    """Metadata and text of a card."""
    _, metadata, text = re.split(r"(?m)^---$", (folder / "README.md").read_text(), maxsplit=2)
    return yaml.safe_load(metadata), text


def test_a_card_says_what_is_known(tmp_path: Path) -> None:
    command = "mmvidformer finetune --data /home/jane/secret/clips --cfg-options a=C:\\x\\b"
    figure = Figure(
        "acc/top1", 0.75, "test", "clips", (0.5, 0.9), 12, {"chance": 0.25}, command, "CPU 9", "now"
    )
    facts = Facts("apache-2.0", "published://vivit_st_k400", "clips", [figure])
    make_recognizer("vivit_fe_k400").save_pretrained(tmp_path / "colors", facts)
    metadata, text = read_card(tmp_path / "colors")
    assert metadata["pipeline_tag"] == "video-classification"
    assert metadata["library_name"] == "mmvidformer" and metadata["license"] == "apache-2.0"
    result = metadata["model-index"][0]["results"][0]
    assert result["metrics"][0]["value"] == 0.75 and result["dataset"]["split"] == "test"
    assert "| clips | test | acc/top1 | 0.750 | 0.500 to 0.900 | 12 | chance 0.250 |" in text
    assert "`mmvidformer finetune --data clips --cfg-options a=b`" in text
    assert "CPU 9" in text and "jane" not in text
    assert "red, green, blue" in text and "| started from | published://vivit_st_k400 |" in text


def test_a_card_says_what_is_not_known(tmp_path: Path) -> None:
    make_recognizer("vivit_fe_k400").save_pretrained(tmp_path / "colors")
    metadata, text = read_card(tmp_path / "colors")
    assert metadata["license"] == "unknown" and "model-index" not in metadata
    assert "Nothing was measured." in text and "| license | not known |" in text
    assert "| trained on | not known |" in text


def test_nothing_is_written_over(tmp_path: Path) -> None:
    recognizer = make_recognizer("vivit_fe_k400")
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(FileExistsError, match=r"README\.md exists already"):
        recognizer.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]
    recognizer.save_pretrained(tmp_path, force=True)
    assert "mine" not in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (dict(cls_head=dict(type="os.system", command="touch was_run")), "names 'os.system'"),
        (dict(cls_head=dict(type="system", _scope_="os", command="true")), "names 'os'"),
        (dict(task="antigravity:Task"), "has the task 'antigravity:Task'"),
        (dict(model=3), "must have a model with backbone and cls_head"),
        (dict(backbone=[]), "must have a model with backbone and cls_head"),
    ],
)
def test_a_folder_of_anybody_runs_no_code(tmp_path: Path, monkeypatch, change, match) -> None:
    monkeypatch.chdir(tmp_path)
    make_recognizer("vivit_fe_k400").save_pretrained("model")
    file = Path("model/config.json")
    content = json.loads(file.read_text())
    for key, value in change.items():
        place = content["mmvidformer"]
        (place if key in ("task", "model") else place["model"])[key] = value
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=match):
        Recognizer.from_pretrained("model")
    assert not Path("was_run").exists()


def test_a_model_with_parts_of_other_projects_is_not_saved(tmp_path: Path) -> None:
    recognizer = make_recognizer("vivit_fe_k400")
    recognizer.cfg.test_dataloader.dataset.pipeline.insert(0, dict(type="torch.nn.Identity"))
    with pytest.raises(ValueError, match=r"the config names 'torch\.nn\.Identity'"):
        recognizer.save_pretrained(tmp_path / "model")
    assert not [*tmp_path.iterdir()]


def test_a_model_with_lora_is_saved_without_it(tmp_path: Path, video: np.ndarray) -> None:
    cfg = shrink(get_config("timesformer_b_k400"))
    cfg.model.backbone.lora = dict(rank=2)
    recognizer = Recognizer(cfg, None, "cpu", clips=1)
    with torch.no_grad():
        for parameter in recognizer.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    recognizer.save_pretrained(tmp_path / "model")
    loaded = Recognizer.from_pretrained(tmp_path / "model", device="cpu", clips=1)
    assert not [name for name in loaded.model.state_dict() if "lora" in name]
    expected = recognizer(video, fps=8.0).scores["class"]
    np.testing.assert_allclose(loaded(video, fps=8.0).scores["class"], expected, atol=1e-5)


def test_faults(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder with a config.json"):
        Recognizer.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json must have a JSON object"):
        Recognizer.from_pretrained(tmp_path)
    recognizer = Recognizer("camera_motion", device="cpu", int8=True)
    with pytest.raises(ValueError, match="with int8 is not saved"):
        recognizer.save_pretrained(tmp_path / "model")


def test_bundled_model(tmp_path: Path) -> None:
    """With a task of its own, and names that the data set had."""
    recognizer = Recognizer("camera_motion", device="cpu")
    recognizer.save_pretrained(tmp_path / "model", Facts(by_name()["camera_motion"].license))
    loaded = Recognizer.from_pretrained(tmp_path / "model", device="cpu")
    assert loaded.names == recognizer.names and type(loaded.task) is type(recognizer.task)


def test_a_model_goes_to_the_hub_and_comes_back(web, monkeypatch, video: np.ndarray) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    recognizer = make_recognizer("vivit_fe_verb_noun_motion")
    assert recognizer.push_to_hub("org/colors") == "hf://org/colors"
    assert web.repositories == {"org/colors": {"private": True}}
    assert web.tokens == {"Bearer hf_secret"}
    loaded = Recognizer.from_pretrained("hf://org/colors", device="cpu", clips=1)
    expected = recognizer(video, fps=8.0)
    for task, scores in loaded(video, fps=8.0).scores.items():
        np.testing.assert_allclose(scores, expected.scores[task], atol=1e-5)
    with pytest.raises(FileExistsError, match="org/colors is on the hub already; --force adds"):
        recognizer.push_to_hub("org/colors")
    assert recognizer.push_to_hub("org/colors", force=True) == "hf://org/colors"
    with pytest.raises(OSError, match="org/a/b cannot be uploaded: Repo id must be"):
        recognizer.push_to_hub("org/a/b")


def test_values_that_are_no_plain_data_are_named() -> None:
    """They were written as text, which another machine would have taken for the value."""
    cfg = Config(dict(model=dict(backbone=dict(type="ViViT", drop_rate=np.float32(0.5)))))
    with pytest.raises(UserError, match=r"the config has .*0\.5.*, which a saved folder cannot"):
        saved_config(cfg, {"classes": ["a"]})
