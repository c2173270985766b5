"""A recognizer with a frozen backbone; views are tested in tests/tools/test_train_test.py."""

from mmengine.config import ConfigDict
from mmengine.registry import DefaultScope

from mmvidformer.registry import MODELS


def test_frozen_recognizer_trains_the_head_only() -> None:
    cfg = ConfigDict(
        type="mmvidformer.FrozenRecognizer",
        backbone=dict(
            type="mmvidformer.TimeSformer",
            arch=dict(embed_dims=8, depth=1, num_heads=2),
            img_size=32,
            drop_path_rate=0.5,
        ),
        cls_head=dict(type="mmaction.TimeSformerHead", num_classes=3, in_channels=8),
    )
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(cfg)
    model.train()
    trained = [name for name, value in model.named_parameters() if value.requires_grad]
    assert trained == ["cls_head.fc_cls.weight", "cls_head.fc_cls.bias"]
    assert model.cls_head.training and not any(m.training for m in model.backbone.modules())
