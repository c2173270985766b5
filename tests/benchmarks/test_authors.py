"""The benchmark beside the authors' code: its models give the authors' outputs; not the times.

The outputs are those of ``tests/golden``, which the authors' code computed.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks import authors
from mmvidformer.checkpoints.formats import convert_checkpoint
from mmvidformer.checkpoints.keymap import Conversion
from mmvidformer.checkpoints.reading import Checkpoint

GOLDEN = Path(__file__).parents[1] / "golden"
# File, input and output; how the axes of the input become (B, 3, T, H, W); heads if not in a file.
CASES = {
    "videoprism": ("videoprism_a", "input", "output", (0, 4, 1, 2, 3), 2),
    "trecvit": ("trecvit_a", "input/whole", "logits/whole", (0, 4, 1, 2, 3), None),
    "streamformer": ("streamformer_a", "input/whole", "pooled/whole", (0, 2, 1, 3, 4), 2),
    "vjepa2_1": ("vjepa2_1_a", "input/whole", "layer_11/whole", (0, 1, 2, 3, 4), 2),
}


def read(name: str) -> tuple[Conversion, Tensor, Tensor]:
    """Converted weights, a clip and the authors' output."""
    file, source, target, axes, heads = CASES[name]
    with np.load(GOLDEN / f"{file}.npz") as content:
        arrays = dict(content)
    meta = json.loads(str(arrays["config"])) if "config" in arrays else {}
    if "cap" in arrays:
        meta["attn_logit_softcapping"] = float(arrays["cap"])
    stem = "params/" if name in ("streamformer", "vjepa2_1") else ""
    weights = {
        key.removeprefix(stem): torch.from_numpy(value)
        for key, value in arrays.items()
        if key.startswith("params/")
    }
    _, result = convert_checkpoint(Checkpoint(weights, meta), "memory")
    result.num_heads = heads or result.num_heads
    clip, output = torch.from_numpy(arrays[source]), torch.from_numpy(arrays[target])
    return result, clip.permute(axes).contiguous(), output


@pytest.mark.parametrize("name", authors.CLIPS)
@torch.no_grad()
def test_outputs_are_the_authors(name: str) -> None:
    result, clip, expected = read(name)
    assert expected.std() > 0.1
    model = authors.Encoder(result).eval()
    torch.testing.assert_close(model(clip), expected, atol=1e-5, rtol=1e-5)


def test_code_that_fails_is_reported(tmp_path: Path) -> None:
    np.save(tmp_path / "clip.npy", np.zeros((1, 1, 2, 2, 3), np.float32))
    with pytest.raises(RuntimeError, match="the authors' code ended with 1"):
        authors.AuthorsCode(sys.executable, "streamformer", tmp_path / "none", tmp_path)


def test_code_runs_once_for_each_line(tmp_path: Path) -> None:
    """With a clone whose model returns its input."""
    hub = tmp_path / "src" / "hub"
    hub.mkdir(parents=True)
    (hub / "backbones.py").write_text(
        "from torch import nn\n"
        "def vjepa2_1_vit_base_384(pretrained):\n"
        "    return nn.Identity(), None\n"
    )
    clip = np.random.default_rng(0).random((1, 2, 4, 4, 3), np.float32)
    np.save(tmp_path / "clip.npy", clip)
    code = authors.AuthorsCode(sys.executable, "vjepa2_1", tmp_path, tmp_path)
    assert (np.load(tmp_path / "output.npy") == clip.transpose(0, 4, 1, 2, 3)).all()
    assert all(seconds >= 0 for _ in range(2) for seconds in code.time())
    code.close()
    assert code.process.returncode == 0
