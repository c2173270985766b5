"""The check of published checkpoints, against a server and figures of its own."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

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

from mmvidformer.checkpoints import published
from mmvidformer.checkpoints.download import hash_of
from mmvidformer.engine import checkpoint_config

# That of transformers 4; 5 has one on the GPU, too.
VideoMAE = getattr(transformers, "VideoMAEImageProcessorPil", VideoMAEImageProcessor)


@pytest.fixture(scope="module")
def tool(load):
    return load("verify_published")


@pytest.mark.parametrize(
    ("name", "processor", "shape"),
    [
        ("timesformer", VideoMAE(), (8, 240, 320)),
        ("timesformer", VideoMAE(), (8, 320, 227)),
        ("vivit", VivitImageProcessor(), (32, 360, 640)),
    ],
)
def test_clips_are_those_of_transformers(tool, name: str, processor, shape: tuple) -> None:
    video = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    expected = processor(list(video), return_tensors="pt")["pixel_values"]
    found = tool.check_clip(tool.CHECKS[name], video, 224)
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


def test_differences_and_hashes(tool, table: Path, capsys: pytest.CaptureFixture) -> None:
    assert tool.main(["right", "--write"]) == 0
    printed = capsys.readouterr().out
    sha256 = hash_of(table / "hf" / "model.safetensors")
    (difference,) = re.findall(rf"right +(\S+) +224 +{sha256}$", printed, re.MULTILINE)
    assert float(difference) <= 1e-4
    assert [row.sha256 for row in published.rows()] == [sha256, "", ""]
    assert published.row_of("published://right").license == "MIT"
    assert published.TABLE.read_text().startswith("# Table\n- address: hf://org/tiny")

    assert tool.main([]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"wrong +1\.0e-03 +224 +[0-9a-f]{64}  DIFFERS", printed)
    assert re.search(r"absent +- +-  hf://org/absent cannot be fetched: .*404 .*Not Found", printed)
