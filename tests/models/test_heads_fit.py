"""Heads on backbones that they do not fit: one sentence names both."""

from typing import Any

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.structures import InstanceData

from mmvidformer.registry import MODELS

BACKBONE = dict(
    type="mmvidformer.TimeSformer",
    arch=dict(embed_dims=32, depth=1, num_heads=2),
    img_size=32,
    clip_len=4,
)
RESNET = dict(type="ResNet3dSlowOnly", depth=18, pretrained=None, lateral=False, norm_eval=False)
PREPROCESSOR = dict(type="ActionDataPreprocessor", format_shape="NCTHW")


def recognizer(backbone: dict, head: dict, kind: str = "Recognizer3D") -> Any:
    config = dict(type=kind, backbone=backbone, cls_head=dict(num_classes=3, **head))
    config["data_preprocessor"] = PREPROCESSOR
    return MODELS.build({"_scope_": "mmaction", **config})


def samples(count: int) -> list[ActionDataSample]:
    return [ActionDataSample().set_gt_label(0) for _ in range(count)]


@pytest.mark.parametrize("mode", ["loss", "predict"])
@pytest.mark.parametrize(
    ("backbone", "head", "names"),
    [
        (BACKBONE, dict(type="I3DHead", in_channels=32), "TimeSformer, I3DHead cannot read"),
        (
            {**BACKBONE, "pool": "none"},
            dict(type="MViTHead", in_channels=32),
            "TimeSformer, MViTHead cannot read",
        ),
        (
            RESNET,
            dict(type="mmvidformer.ZeroInitHead", in_channels=512),
            r"ResNet3dSlowOnly, ZeroInitHead cannot read \(2, 512, ",
        ),
        (
            RESNET,
            dict(type="mmvidformer.TokenMlpHead", in_channels=512),
            "ResNet3dSlowOnly, TokenMlpHead cannot read",
        ),
        *(
            (
                backbone,
                dict(type=f"mmvidformer.{name}", in_channels=32),
                f"TimeSformer, {name} {why}",
            )
            for name in ("FramesHead", "SegmentsHead", "MomentsHead", "BoxesHead")
            for backbone, why in (
                (BACKBONE, r"cannot read \(2, 32\): tokens \(N, T, H, W, 32\) are needed"),
                ({**BACKBONE, "pool": "all"}, r"cannot read \(2, 17, 32\): tokens"),
            )
        ),
        (
            dict(type="mmvidformer.FeatureMaps", backbone=BACKBONE),
            dict(type="mmvidformer.SegmentsHead", in_channels=32),
            r"FeatureMaps, SegmentsHead cannot read \(\(2, 32, .*\): tokens",
        ),
        (
            RESNET,
            dict(type="mmvidformer.MomentsHead", in_channels=512),
            r"ResNet3dSlowOnly, MomentsHead cannot read \(2, 512, .*\): tokens",
        ),
        *(
            (
                {**BACKBONE, "pool": pool},
                dict(type=head, in_channels=32),
                r"TimeSformer, \w+Head cannot read .*: its scores are \(2, .*, 3\), not",
            )
            for pool in ("none", "all")
            for head in ("TimeSformerHead", "UniFormerHead", "mmvidformer.ZeroInitHead")
        ),
    ],
)
def test_the_error_names_head_and_backbone(
    backbone: dict, head: dict, names: str, mode: str
) -> None:
    model = recognizer(backbone, head)
    clips = torch.randn(2, 1, 3, 4, 32, 32)
    box = InstanceData(bboxes=torch.tensor([[0.0, 0.0, 1.0, 1.0]]), labels=torch.ones(1, 3))
    for sample in (data_samples := samples(2)):
        sample.set_metainfo(dict(num_clips=1, img_shape=(32, 32)))
        sample.gt_instances = box
    with pytest.raises(ValueError, match=f"head and backbone do not fit: of {names}"):
        model(clips, data_samples, mode=mode)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("MultiLabelHead", dict(label_smooth_eps=0.1)),
        ("MultiLabelAttentiveHead", dict(label_smooth_eps=0.1, num_heads=2)),
        ("MultiLabelHead", dict(multi_class=False)),
        ("NumberHead", dict(label_smooth_eps=0.1)),
        ("NumberHead", dict(average_clips="score")),
        ("NumberHead", dict(multi_class=True)),
        ("FramesHead", dict(label_smooth_eps=0.1)),
        ("BoxesHead", dict(label_smooth_eps=0.1)),
        ("FramesHead", dict(average_clips="score")),
        ("FramesHead", dict(multi_class=False)),
        ("BoxesHead", dict(average_clips="score")),
        ("BoxesHead", dict(multi_class=False)),
        ("SegmentsHead", dict(label_smooth_eps=0.1)),
        ("SegmentsHead", dict(loss_cls=dict(type="CrossEntropyLoss"))),
    ],
)
def test_what_a_head_does_not_read_is_refused(kind: str, options: dict) -> None:
    config = dict(type=f"mmvidformer.{kind}", num_classes=3, in_channels=8, **options)
    with pytest.raises(ValueError, match=f"has no effect in {kind}; leave it out"):
        MODELS.build(config)


def test_a_recognizer_of_images_is_named() -> None:
    head = dict(type="TSNHead", in_channels=32, consensus=dict(type="AvgConsensus", dim=1))
    model = recognizer(BACKBONE, head, "Recognizer2D")
    with pytest.raises(ValueError, match="Recognizer2D gives images: use Recognizer3D, and format"):
        model(torch.randn(2, 4, 3, 32, 32), samples(2), mode="loss")
