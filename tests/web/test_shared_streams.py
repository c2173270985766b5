"""Streams whose frames one process reads and another one answers."""

import threading
from functools import partial
from multiprocessing.connection import arbitrary_address, default_family

import numpy as np
import pytest
import torch
from mmengine.registry import DefaultScope

from mmvidformer import get_config
from mmvidformer.apis import Recognizer
from mmvidformer.engine.offer_options import Limits
from mmvidformer.registry import MODELS
from mmvidformer.web.shared_models import Link, can_share, offer_model


@pytest.fixture
def load(tmp_path):
    """Load a recurrent model."""
    cfg, path = get_config("causal_transformer_early_motion"), str(tmp_path / "weights.pth")
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        torch.save({"state_dict": MODELS.build(cfg.model).state_dict()}, path)
    return partial(Recognizer, cfg, path, device="cpu")


def answers(recognizer: Recognizer, seed: int, frames: int) -> np.ndarray:
    pictures = np.random.default_rng(seed).integers(0, 256, (frames, 48, 64, 3), np.uint8)
    return np.stack([x.scores["class"] for x in recognizer.stream(pictures, 30)])


def test_each_link_has_a_state_of_its_own(load) -> None:
    model, address = load(), arbitrary_address(default_family)
    assert can_share(model)
    expected = [answers(model, seed, 12 + 6 * seed) for seed in range(3)]
    assert [*offer_model(model, Limits(), address, 3, 0.02)] == [address]
    readers = [load() for _ in expected]
    found: list = [None] * len(expected)

    def read(seed: int) -> None:
        readers[seed].run_elsewhere(partial(Link, address))
        found[seed] = answers(readers[seed], seed, 12 + 6 * seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    for scores, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(scores, wanted, atol=1e-5)
    again = answers(readers[0], 0, 12)  # a new stream knows nothing of the last one
    np.testing.assert_allclose(again, expected[0], atol=1e-5)
