"""Loads files into models of other projects: ``python tests/other_models.py FOLDER``.

Prints what each model holds afterwards, first without the plugin and then with it.
"""

import hashlib
import sys
from pathlib import Path

from mmvidformer.repairs import drn, multimodal

drn.repair()  # else MMAction2 has no models
multimodal.repair()

import timm  # noqa: E402
import torch  # noqa: E402
from mmaction.registry import MODELS  # noqa: E402
from mmengine.runner import load_checkpoint  # noqa: E402
from torch import nn  # noqa: E402
from transformers import (  # noqa: E402
    TimesformerConfig,
    TimesformerForVideoClassification,
    VivitConfig,
    VivitForVideoClassification,
)

SMALL = dict(embed_dims=16, num_heads=2, img_size=32, patch_size=16)
HF = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)


def recognizer(backbone: dict) -> nn.Module:
    head = dict(type="TimeSformerHead", num_classes=3, in_channels=16)
    parts = dict(backbone=backbone, cls_head=head, _scope_="mmaction")
    return MODELS.build(dict(type="Recognizer3D", **parts))


class MMPretrain(nn.Module):
    """The names of MMPretrain's ``ImageClassifier`` with a ``VisionTransformer``."""

    def __init__(self) -> None:
        super().__init__()
        block = nn.ModuleDict(dict(ln1=nn.LayerNorm(16), attn=nn.Linear(16, 48)))
        patches = nn.ModuleDict(dict(conv=nn.Conv2d(3, 16, 16), projection=nn.Conv2d(3, 16, 16)))
        parts = dict(patch_embed=patches, layers=nn.ModuleList([block]), ln1=nn.LayerNorm(16))
        self.backbone = nn.ModuleDict(parts)
        self.backbone.cls_token = nn.Parameter(torch.zeros(1, 1, 16))
        self.backbone.pos_embed = nn.Parameter(torch.zeros(1, 5, 16))
        self.head = nn.Linear(16, 3)


def make(name: str) -> nn.Module:
    """Build a model with random weights."""
    if name == "timm":
        sizes = dict(img_size=32, patch_size=16, embed_dim=16, depth=1, num_heads=2)
        return timm.models.VisionTransformer(**sizes)
    if name == "MMAction2's TimeSformer":
        sizes = dict(SMALL, num_frames=2, num_transformer_layers=2)
        return recognizer(dict(type="TimeSformer", **sizes))
    if name == "MMAction2's VisionTransformer":
        sizes = dict(SMALL, num_frames=2, depth=1)
        return recognizer(dict(type="VisionTransformer", **sizes))
    if name == "MMPretrain":
        return MMPretrain()
    if name == "ViViT of transformers":
        sizes = dict(image_size=32, num_frames=2, tubelet_size=[2, 16, 16])
        return VivitForVideoClassification(VivitConfig(**sizes, **HF))
    sizes = dict(image_size=32, num_frames=2, patch_size=16)
    return TimesformerForVideoClassification(TimesformerConfig(**sizes, **HF))


NAMES = (
    *("timm", "MMAction2's TimeSformer", "MMAction2's VisionTransformer", "MMPretrain"),
    *("ViViT of transformers", "TimeSformer of transformers"),
)


def load_all(folder: Path) -> None:
    """Load each file into each model."""
    for file in NAMES:
        torch.manual_seed(0)
        state = make(file).state_dict()
        (folder / "hub" / "checkpoints").mkdir(parents=True, exist_ok=True)
        torch.save({"state_dict": state, "meta": {"epoch": 1}}, folder / f"{file}.pth")
        torch.save(state, folder / "hub" / "checkpoints" / f"{file}.pth")  # as if fetched
        for name in NAMES:
            for address in (str(folder / f"{file}.pth"), f"https://localhost/{file}.pth"):
                torch.manual_seed(1)
                model = make(name)
                content = load_checkpoint(model, address, "cpu", logger="silent")
                digest = hashlib.sha256(repr([*content]).encode())
                for key, value in model.state_dict().items():
                    digest.update(key.encode() + value.numpy().tobytes())
                print(file, "->", name, address.partition(":")[0] == "https", digest.hexdigest())


if __name__ == "__main__":
    load_all(Path(sys.argv[1]))
    assert "mmvidformer.registry" not in sys.modules
    import mmvidformer.registry  # noqa: F401

    load_all(Path(sys.argv[1]))
