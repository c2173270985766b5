import pytest

from tests.engine.preflight.setups import build, config


@pytest.fixture
def weights(tmp_path) -> dict:
    """Weights of the model, but for a head of five classes."""
    cfg = config(tmp_path)
    cfg.model.cls_head.num_classes = 5
    return build(cfg).state_dict()
