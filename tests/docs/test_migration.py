"""The configs of the migration page: what MMAction2's TimeSformer becomes, and one of ViViT."""

import re
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.utils import get_installed_path

from mmvidformer.registry import MODELS

PAGE = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()
NAME = "timesformer_divST_8xb8-8x32x1-15e_kinetics400-rgb.py"
THEIRS = Path(get_installed_path("mmaction"), ".mim/configs/recognition/timesformer", NAME)
ARCH = dict(embed_dims=24, depth=2, num_heads=2)
THEIR_ARCH = dict(embed_dims=24, num_transformer_layers=2, num_heads=2)


@pytest.fixture
def configs(tmp_path: Path) -> list[Config]:
    """The blocks of the page, as they are: what MMAction2's TimeSformer becomes, and a ViViT."""
    found = []
    for number, text in enumerate(re.findall(r"(?s)```python\n(.*?)```", PAGE)):
        (tmp_path / f"block_{number}.py").write_text(text)
        found.append(Config.fromfile(tmp_path / f"block_{number}.py"))
    return found


@pytest.fixture
def image_model(tmp_path: Path) -> str:
    """Weights with the names of MMAction2's image model: those of a model without time."""
    with DefaultScope.overwrite_default_scope("mmaction"):
        backbone = Config.fromfile(THEIRS).model.backbone
        backbone.update(pretrained=None, attention_type="space_only", **THEIR_ARCH)
        model = MODELS.build(backbone)
    torch.manual_seed(0)
    state = {name: torch.randn_like(weight) / 5 for name, weight in model.state_dict().items()}
    torch.save(state, tmp_path / "image.pth")
    return str(tmp_path / "image.pth")


def test_it_computes_what_mmaction2s_does(configs: list, image_model: str) -> None:
    """From the same image model, whose attention over time starts at zero."""
    theirs, ours = (cfg.model.backbone for cfg in (Config.fromfile(THEIRS), configs[0]))
    assert (ours.pop("init_from"), ours.pop("arch")) == (theirs.pop("pretrained"), "b")
    with DefaultScope.overwrite_default_scope("mmaction"):
        theirs = MODELS.build({**theirs, **THEIR_ARCH, "pretrained": image_model}).eval()
        ours = MODELS.build({**ours, "arch": ARCH, "init_from": image_model}).eval()
    theirs.init_weights()
    ours.init_weights()
    clip = torch.randn(1, 3, 8, 224, 224)
    with torch.no_grad():
        expected = theirs(clip)
        assert expected.std() > 0.1
        torch.testing.assert_close(ours(clip), expected, atol=1e-4, rtol=1e-4)


def test_it_is_trained(configs: list, image_model: str, tiny_videos, main_of, tmp_path) -> None:
    """A step with all its pipelines, head and schedule."""
    cfg = configs[0]
    cfg.model.backbone.update(arch=ARCH, init_from=image_model)
    cfg.model.cls_head.in_channels = 24
    for split in ("train", "val", "test"):
        loader = cfg[f"{split}_dataloader"]
        loader.update(num_workers=0, persistent_workers=False)
        loader.dataset.ann_file = str(tiny_videos.train if split == "train" else tiny_videos.val)
        loader.dataset.data_prefix.video = str(tiny_videos.root)
    cfg.train_cfg.max_epochs = 1
    cfg.dump(tmp_path / "tiny.py")
    options = ["--work-dir", str(tmp_path / "run"), "--seed", "0", "--no-validate"]
    main_of("train")([str(tmp_path / "tiny.py"), *options])
    trained = torch.load(tmp_path / "run" / "epoch_1.pth", weights_only=True)
    assert trained["meta"]["iter"] == 1  # 8 videos in a batch
    start = torch.load(image_model)["norm.weight"]
    change = (trained["state_dict"]["backbone.encoders.0.norm.weight"] - start).abs().max()
    assert 0 < change < 0.1


def test_decay_names_weights_of_the_model(configs: list) -> None:
    configs[0].model.backbone.init_from = None
    names = [name for name, _ in build(configs[0]).named_parameters()]
    keys = configs[0].optim_wrapper.paramwise_cfg.custom_keys
    own = [key for key in keys if "encoders" in key]
    assert len(own) == 2 and all(any(key in name for name in names) for key in own)


def test_vivit(configs: list) -> None:
    clip = torch.empty(1, 3, 32, 224, 224, device="meta")
    assert build(configs[1]).backbone(clip).shape == (1, 768)


def build(cfg: Config) -> torch.nn.Module:
    with torch.device("meta"):
        return MODELS.build({"_scope_": "mmaction", **cfg.model})
