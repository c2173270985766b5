"""Every model on a CUDA device that only computes shapes: no tensor stays on the CPU."""

import json

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from lab.papers.rows import list_rows
from mmvidformer import get_config, list_models
from mmvidformer.config import clip_shape, is_recurrent
from mmvidformer.engine.loading import build_meta_model
from tests.paper_rows import of_others


def distinct() -> list:
    """Configs whose backbone, neck or head differ; rows of papers in the slow tests.

    Networks of MMAction2 are not ours to test. Numbers of classes are of no account.
    """
    found: dict[str, str] = {}
    for name in list_models():
        model = get_config(name).model
        model.cls_head = {**model.cls_head, "num_classes": None}
        parts = [model.get(part) for part in ("type", "backbone", "neck", "cls_head")]
        found.setdefault(json.dumps(parts, default=str, sort_keys=True), name)
    rows: dict[str, str] = {}
    for row in list_rows():
        options = {key: value for key, value in row.options.items() if key.startswith("model.")}
        if options and not row.missing and not of_others(row):
            rows.setdefault(repr((row.config, options)), row.name)
    return sorted(found.values()) + [pytest.param(n, marks=pytest.mark.slow) for n in rows.values()]


@pytest.mark.skipif(
    torch.__version__ < (2, 7),
    reason="convolutions of PyTorch 2.6 end the process on such a device",
)
@pytest.mark.parametrize("name", distinct())
def test_nothing_is_left_on_the_cpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a GPU autocast would switch itself off.
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    cfg = get_config(name)
    packs = "RollingLstm" in cfg.model.get("neck", {}).get("type", "")
    if packs or cfg.model.cls_head.get("classifier") == "unrolling":
        pytest.skip("PyTorch cannot compute the shapes of packed sequences without their values")
    shape = (3, 3, 64, 64) if is_recurrent(cfg) else clip_shape(cfg)
    cfg.model.backbone.pop("frozen_stages", None)  # counts the blocks
    model = build_meta_model(cfg)
    for encoder in getattr(model.backbone, "encoders", ()):
        del encoder.blocks[2:]  # the others are alike
    computed: set[torch.dtype] = set()
    for linear in model.modules():
        if isinstance(linear, torch.nn.Linear):
            linear.register_forward_hook(lambda *args: computed.add(args[-1].dtype))
    with FakeTensorMode(), torch.device("cuda"):
        model._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype))
        clip = torch.empty(2, 1, *shape)
        if is_recurrent(cfg):
            clip = clip[:, 0].transpose(1, 2)
        for training, dtype in ((False, torch.float32), (True, torch.bfloat16)):
            computed.clear()
            with torch.autocast("cuda", dtype, enabled=training):
                scores = model.train(training).extract_feat(clip, stage="head")
            tensors = [leaf for leaf in tree_leaves(scores) if isinstance(leaf, torch.Tensor)]
            assert {tensor.device.type for tensor in tensors} == {"cuda"}
            assert dtype in computed
