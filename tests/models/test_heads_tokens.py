import torch
import torch.nn.functional as F
from mmaction.structures import ActionDataSample
from mmengine.registry import DefaultScope

from mmvidformer.registry import MODELS


def make_head(**kwargs) -> torch.nn.Module:
    torch.manual_seed(0)
    options = {"type": "TokenMlpHead", "num_classes": 3, "in_channels": 8, "hidden_dim": 12}
    return MODELS.build({**options, **kwargs})


def test_head_is_pooling_norm_and_two_layers() -> None:
    head = make_head().eval()
    x = torch.randn(2, 3, 4, 5, 8)
    y = F.layer_norm(x.mean(dim=(1, 2, 3)), (8,), eps=1e-5)
    y = F.linear(y, head.fc_hidden.weight, head.fc_hidden.bias)
    y = F.linear(F.gelu(y), head.fc_cls.weight, head.fc_cls.bias)
    torch.testing.assert_close(head(x), y)


def test_dropout_falls_on_single_tokens() -> None:
    """The mean of many tokens keeps its value then; with a dropped mean it would be 0 or 2."""
    head = make_head(dropout_ratio=0.5).train()
    pooled = []
    head.norm.register_forward_pre_hook(lambda _, args: pooled.append(args[0]))
    head(torch.ones(1, 16, 20, 20, 8))
    torch.testing.assert_close(pooled[0], torch.ones(1, 8), atol=0.1, rtol=0)
    assert not torch.equal(pooled[0], torch.ones(1, 8))


def test_initial_weights() -> None:
    head = make_head(in_channels=64, hidden_dim=256)
    head.init_weights()
    assert abs(head.fc_hidden.weight.std().item() - 0.02) < 0.002
    assert not head.fc_hidden.bias.any() and not head.fc_cls.bias.any()


def test_recogniser_trains_and_predicts() -> None:
    from mmengine.optim import OptimWrapper

    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = MODELS.build(
            {
                "type": "Recognizer3D",
                "backbone": {
                    "type": "mmvidformer.FeatureFixationTransformer",
                    "arch": {"embed_dims": 16, "depth": 1, "num_heads": 2},
                    "img_size": 32,
                    "clip_len": 2,
                },
                "cls_head": {
                    "type": "mmvidformer.TokenMlpHead",
                    "num_classes": 3,
                    "in_channels": 16,
                    "average_clips": "score",
                },
                "data_preprocessor": {
                    "type": "ActionDataPreprocessor",
                    "mean": [127.5] * 3,
                    "std": [127.5] * 3,
                    "format_shape": "NCTHW",
                },
            }
        )
    clips = [torch.randint(0, 256, (1, 3, 2, 32, 32), dtype=torch.uint8) for _ in range(3)]
    samples = [ActionDataSample().set_gt_label(label) for label in range(3)]
    wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    before = model.backbone.embed.proj.weight.detach().clone()
    logged = model.train_step({"inputs": clips, "data_samples": samples}, wrapper)
    assert logged["loss"].isfinite()
    assert not torch.equal(before, model.backbone.embed.proj.weight)

    model.eval()
    views = {"inputs": [torch.cat(clips[:2])], "data_samples": samples[:1]}
    with torch.no_grad():
        fused = model.test_step(views)[0].pred_score
        alone = [
            model.test_step({"inputs": [clip], "data_samples": samples[:1]})[0].pred_score
            for clip in clips[:2]
        ]
    torch.testing.assert_close(fused, torch.stack(alone).mean(0), atol=1e-5, rtol=1e-4)
