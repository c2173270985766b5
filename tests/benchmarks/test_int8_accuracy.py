"""Top-1 in 8 bits: the row of a tiny model on a few clips."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import int8_accuracy
from mmvidformer.apis import Recognizer
from mmvidformer.config import load_config
from mmvidformer.engine.loading import load_recognizer

CONFIG = Path(__file__).parents[1] / "cli" / "tiny_vivit.py"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """Weights whose answers depend on the clip."""
    torch.manual_seed(0)
    model = load_recognizer(load_config(str(CONFIG)), None)
    torch.nn.init.normal_(model.cls_head.fc_cls.weight)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    return str(tmp_path / "weights.pth")


def test_a_row(main_of, write, checkpoint: str, capsys) -> None:
    pytest.importorskip("onnxruntime")
    rng, names = np.random.default_rng(0), ["a.mp4", "b.mp4", "c.mp4"]
    for level, name in zip((40, 120, 200), names, strict=True):
        folder = write(name, rng.integers(level, level + 50, (8, 64, 64, 3), np.uint8)).parent
    recognizer = Recognizer(str(CONFIG), checkpoint, "cpu")
    first, *others = (
        int(recognizer(str(folder / name)).scores["class"].argmax()) for name in names
    )
    labels = [(first + 1) % 3, *others]  # the first one is wrong
    lines = [f"{name} {label}\n" for name, label in zip(names, labels, strict=True)]
    (folder / "test.txt").write_text("".join(lines))
    threads = torch.get_num_threads()
    try:
        main_of("int8_accuracy")(["--model", str(CONFIG), checkpoint, str(folder)])
    finally:
        torch.set_num_threads(threads)
    name, clips, float32, *_ = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    assert (name, clips, float32) == ("tiny_vivit", "3", "66.7%")


def test_what_differs_is_counted_from_float32() -> None:
    found = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 0], [1, 0, 2, 3]])
    row = int8_accuracy.row_of("name", found, torch.tensor([0, 1, 2, 0]))
    assert row == ["name", "4", "75.0%", "100.0%", "25.0%", "1", "2"]
