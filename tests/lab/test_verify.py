"""The check of published checkpoints, against a server and figures of its own."""

import io
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
import yaml
from transformers import (
    TimesformerConfig,
    TimesformerForVideoClassification,
    VideoMAEImageProcessor,
    VivitImageProcessor,
)

from lab import verify
from lab.verification import CHECKS, Verified, check_clip, report
from mmvidformer.apis import checkpoint_config
from mmvidformer.checkpoints import published
from mmvidformer.checkpoints.download import hash_of

# That of transformers 4; 5 has one on the GPU, too.
VideoMAE = getattr(transformers, "VideoMAEImageProcessorPil", VideoMAEImageProcessor)


@pytest.mark.parametrize(
    ("name", "processor", "shape"),
    [
        ("timesformer", VideoMAE(), (8, 240, 320)),
        ("timesformer", VideoMAE(), (8, 320, 227)),
        ("vivit", VivitImageProcessor(), (32, 360, 640)),
    ],
)
def test_clips_are_those_of_transformers(name: str, processor, shape: tuple) -> None:
    video = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    expected = processor(list(video), return_tensors="pt")["pixel_values"]
    found = check_clip(CHECKS[name], video, 224)
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=2e-6, rtol=0)


@pytest.fixture
def table(web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tiny TimeSformer in a repository, its logits, and rows that are right and wrong."""
    torch.manual_seed(0)
    sizes = dict(image_size=32, patch_size=16, num_frames=4, hidden_size=16)
    config = TimesformerConfig(
        **sizes, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, num_labels=3
    )
    model = TimesformerForVideoClassification(config).eval()
    model.save_pretrained(tmp_path / "hf")
    web.add_repository("org/tiny", tmp_path / "hf")
    video = np.random.default_rng(0).integers(0, 256, (8, 240, 320, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    np.save(buffer, video)
    folder = "/datasets/hf-internal-testing/spaghetti-video/resolve/main"
    web.add(f"{folder}/eating_spaghetti.npy", buffer.getvalue())
    clip = VideoMAE()(list(video), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        logits = model(clip).logits[0].tolist()
    row = dict(address="hf://org/tiny", format="timesformer")
    check = dict(input="timesformer", logits=logits)
    rows = [
        dict(row, name="right", check=check, license="MIT"),
        dict(row, name="wrong", check=dict(check, logits=[x + 0.001 for x in logits])),
        dict(row, name="absent", address="hf://org/absent"),
    ]
    (tmp_path / "published.yml").write_text("# Table\n" + yaml.safe_dump(rows, sort_keys=False))
    monkeypatch.setattr(published, "TABLE", tmp_path / "published.yml")
    monkeypatch.setattr(checkpoint_config, "list_models", lambda: ["timesformer_b_k400"])
    published.rows.cache_clear()
    yield tmp_path
    published.rows.cache_clear()


def test_differences_and_hashes(table: Path, capsys: pytest.CaptureFixture) -> None:
    assert verify.main(["right", "--write"]) == 0
    printed = capsys.readouterr().out
    sha256 = hash_of(table / "hf" / "model.safetensors")
    (differences,) = re.findall(rf"right +(\S+) +(\S+) +224 +{sha256}$", printed, re.MULTILINE)
    assert max(map(float, differences)) <= 1e-4
    assert [row.sha256 for row in published.rows()] == [sha256, "", ""]
    assert published.row_of("published://right").license == "MIT"
    assert published.TABLE.read_text().startswith("# Table\n- address: hf://org/tiny")

    assert verify.main([]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"wrong +1\.0e-03 +\S+ +224 +[0-9a-f]{64}  DIFFERS", printed)
    assert re.search(
        r"absent +- +- +-  hf://org/absent cannot be fetched: .*404 .*Not Found", printed
    )


def test_the_page_of_a_user(table: Path, tmp_path: Path, capsys) -> None:
    """Published logits and the model of transformers: equal, different, and not there."""
    page = tmp_path / "pages" / "right.md"
    assert verify.main(["right", "--by", "A. User", "--out", str(page)]) == 0
    assert f"written: {page}" in capsys.readouterr().out
    text = page.read_text()
    lines = dict(re.findall(r"^\| ([\w -]+) \| (.*) \|$", text, re.MULTILINE))
    assert text.startswith("# right: equal\n")
    assert lines["checked by"] == f"A. User, {date.today()}"
    assert lines["license"] == "MIT" and lines["address"] == "hf://org/tiny"
    sha256 = hash_of(table / "hf" / "model.safetensors")
    assert lines["SHA-256"] == sha256 and f'    sha256: "{sha256}"' in text
    assert re.fullmatch(r"largest difference \S+, frames of 224 pixels", lines["published logits"])
    code = r"largest difference (\S+), transformers' (\w+), logits \(1, 3\)"
    difference, model = re.fullmatch(code, lines["their code"]).groups()
    assert float(difference) <= 1e-5 and model == "TimesformerForVideoClassification"
    assert transformers.__version__ in lines["versions"]
    assert len(text.splitlines()) < 40

    assert verify.main(["wrong", "--out", str(page), "--force"]) == 1
    text = page.read_text()
    assert "# wrong: differs\n" in text and "verified: " not in text
    assert verify.main(["absent", "--out", str(page), "--force"]) == 1
    assert "# absent: could not be loaded" in page.read_text()
    with pytest.raises(KeyError, match="rihgt"):
        verify.main(["rihgt"])
    for words in (["--by", "A. User"], ["right", "wrong", "--out", str(page)]):
        with pytest.raises(SystemExit):
            verify.main(words)


def test_what_was_compared_with_nothing_is_not_verified() -> None:
    row = published.Published("alone", "hf://org/alone", "timesformer")
    lines = list(report(row, Verified("alone", sha256="ab"), "A. User"))
    assert lines[0] == "# alone: loads; nothing to compare with"
    assert lines[-1] == '    sha256: "ab"'


@pytest.mark.parametrize("family", ["vivit", "videomae", "vjepa2", "videoprism"])
def test_encoders_are_compared_with_transformers(
    family: str, web, tmp_path: Path, monkeypatch
) -> None:
    """Tokens of a model without a classifier."""
    torch.manual_seed(0)
    make_encoder(family).eval().save_pretrained(tmp_path / "hf")
    web.add_repository("org/tiny", tmp_path / "hf")
    rows = [dict(name="tiny", address="hf://org/tiny", format=family)]
    (tmp_path / "published.yml").write_text(yaml.safe_dump(rows))
    monkeypatch.setattr(published, "TABLE", tmp_path / "published.yml")
    published.rows.cache_clear()
    try:
        assert verify.main(["tiny", "--out", str(tmp_path / "tiny.md")]) == 0
    finally:
        published.rows.cache_clear()
    page = (tmp_path / "tiny.md").read_text()
    assert "# tiny: equal\n" in page
    found = re.search(r"largest difference (\S+), transformers' \w+, tokens", page)
    assert float(found[1]) <= 1e-5


def make_encoder(family: str) -> Any:
    """A small model of transformers with random weights."""
    sizes = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=36)
    if family == "vivit":
        clip = dict(image_size=32, num_frames=4, tubelet_size=[2, 16, 16])
        return transformers.VivitModel(transformers.VivitConfig(**sizes, **clip))
    if family == "videomae":
        clip = dict(image_size=32, num_frames=4, patch_size=16, use_mean_pooling=False)
        return transformers.VideoMAEModel(transformers.VideoMAEConfig(**sizes, **clip))
    if family == "vjepa2":
        pytest.importorskip("transformers.models.vjepa2")  # not in 4.40
        clip = dict(crop_size=32, frames_per_clip=4, patch_size=16)
        predictor = dict(pred_hidden_size=24, pred_num_attention_heads=2, pred_num_hidden_layers=1)
        return transformers.VJEPA2Model(transformers.VJEPA2Config(**sizes, **clip, **predictor))
    clip = dict(image_size=36, num_frames=4, tubelet_size=[1, 18, 18])
    layers = dict(num_spatial_layers=2, num_temporal_layers=1)
    videoprism = pytest.importorskip("transformers.models.videoprism")
    config = videoprism.VideoPrismVisionConfig(**sizes, **clip, **layers)
    return videoprism.VideoPrismVisionModel(config)
