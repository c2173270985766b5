"""The attentive head on features of few videos."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from mmvidformer.finetune.probes import PROBES
from mmvidformer.finetune.rows import Row, load_rows
from mmvidformer.models.heads import AttentiveHead

VIDEOS, TOKENS, WIDTH = 40, 6, 16


def write_tokens(folder: Path) -> list[Row]:
    """Tokens of videos of two classes, one of which shows its class."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(VIDEOS):
        tokens = random.normal(size=(TOKENS, WIDTH)).astype(np.float32)
        tokens[random.integers(TOKENS), number % 2] += 6
        np.save(folder / f"{number}.npy", tokens[None])
        rows.append(Row(folder / f"{number}.npy", number % 2))
    return rows


def test_the_seed_of_the_run_decides_all_weights(tmp_path: Path) -> None:
    rows = write_tokens(tmp_path)
    recipe = SimpleNamespace(lr=3e-3, epochs=1, batch=64, seed=0)
    queries = []
    for seed_before in (1, 2):
        torch.manual_seed(seed_before)
        head = AttentiveHead(num_classes=2, in_channels=WIDTH, num_heads=2)
        (trained,) = PROBES["attentive"].train(head, rows, recipe, None).values()
        queries.append(trained.pooling.query)
    assert torch.equal(*queries)


def count_right(rows: list[Row], epochs: int | None) -> int:
    """Train at one rate in batches of 64, and return how many of the same videos are told right."""
    head = AttentiveHead(num_classes=2, in_channels=WIDTH, num_heads=2)
    recipe = SimpleNamespace(lr=3e-3, epochs=epochs, batch=64, seed=0)
    (trained,) = PROBES["attentive"].train(head, rows, recipe, None).values()
    inputs, labels = load_rows(rows)
    with torch.no_grad():
        return int((trained(inputs).argmax(1) == labels).sum())


def test_few_videos_are_learned(tmp_path: Path) -> None:
    rows = write_tokens(tmp_path)
    assert count_right(rows, None) >= 0.95 * VIDEOS  # 300 steps
    assert count_right(rows, 20) < 0.9 * VIDEOS
