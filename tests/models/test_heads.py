import pytest
import torch
import torch.nn.functional as F
from mmaction.structures import ActionDataSample
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.registry import DefaultScope

from mmvidformer.registry import MODELS

TASKS = {"noun": 4, "verb": 3}


def samples(*labels: object) -> list[ActionDataSample]:
    return [ActionDataSample().set_gt_label(label) for label in labels]


def multi_task_head(**kwargs) -> torch.nn.Module:
    torch.manual_seed(0)
    return MODELS.build({"type": "MultiTaskHead", "tasks": TASKS, "in_channels": 8, **kwargs})


def test_loss_is_the_mean_over_tasks() -> None:
    head = multi_task_head(topk=(1, 2))
    x = torch.randn(5, 8)
    labels = torch.tensor([[0, 2], [3, 1], [1, 1], [2, 0], [0, 0]])
    out = head.loss(x, samples(*labels))
    noun, verb = head(x).split([4, 3], dim=1)
    losses = F.cross_entropy(noun, labels[:, 0]), F.cross_entropy(verb, labels[:, 1])
    torch.testing.assert_close(out["loss_cls"], sum(losses) / 2)
    torch.testing.assert_close(out["verb_ce"], losses[1])
    accuracy = (noun.argmax(1) == labels[:, 0]).float().mean().item()
    assert out["noun_top1_acc"].item() == pytest.approx(accuracy)
    assert [name for name in out if "loss" in name] == ["loss_cls"]


def test_label_smoothing_is_within_a_task() -> None:
    head = multi_task_head(label_smooth_eps=0.2)
    x = torch.randn(2, 8)
    labels = torch.tensor([[0, 2], [3, 1]])
    expected = [
        F.cross_entropy(scores, label, label_smoothing=0.2)
        for scores, label in zip(head(x).split([4, 3], dim=1), labels.T, strict=True)
    ]
    torch.testing.assert_close(head.loss(x, samples(*labels))["loss_cls"], sum(expected) / 2)


def test_soft_labels_from_mixup() -> None:
    head = multi_task_head()
    x = torch.randn(1, 8)
    soft = torch.tensor([0.3, 0.7, 0, 0, 0, 0.3, 0.7])
    noun, verb = head(x)[:, :4].log_softmax(1)[0], head(x)[:, 4:].log_softmax(1)[0]
    expected = -(0.3 * noun[0] + 0.7 * noun[1] + 0.3 * verb[1] + 0.7 * verb[2]) / 2
    out = head.loss(x, samples(soft))
    torch.testing.assert_close(out["loss_cls"], expected)
    assert not [name for name in out if name.endswith("acc")]


@pytest.mark.parametrize("fuse", ["score", "prob"])
def test_views_are_averaged_for_each_task(fuse: str) -> None:
    head = multi_task_head(average_clips=fuse)
    x = torch.randn(6, 8)
    first, second = head.predict(x, samples([0, 0], [1, 1]))
    scores = head(x).view(2, 3, 7)
    for i, sample in enumerate((first, second)):
        for name, part in zip(TASKS, scores[i].split([4, 3], dim=1), strict=True):
            part = part if fuse == "score" else part.softmax(-1)
            torch.testing.assert_close(sample.pred_score[name], part.mean(0))


def test_wrong_labels_are_named() -> None:
    with pytest.raises(ValueError, match=r"noun.*got \(1, 3\)"):
        multi_task_head().loss(torch.randn(1, 8), samples([0, 1, 2]))


def test_tasks_are_in_the_order_of_a_saved_config() -> None:
    tasks = dict(verb=3, noun=4)
    saved = Config.fromstring(Config(dict(tasks=tasks)).pretty_text, ".py").tasks
    assert [*saved] == ["noun", "verb"]  # MMEngine sorts keys
    for build in (
        lambda: multi_task_head(tasks=tasks),
        lambda: MODELS.build({"type": "ReversedMixup", "num_classes": tasks}),
    ):
        with pytest.raises(ValueError, match="alphabetical order: noun, verb; got verb, noun"):
            build()


def test_heads_are_initialized_to_zero() -> None:
    single = MODELS.build({"type": "ZeroInitHead", "num_classes": 5, "in_channels": 8})
    for head in (single, multi_task_head()):
        assert head.fc_cls.weight.any()
        head.init_weights()
        assert not head.fc_cls.weight.any()
        assert not head.fc_cls.bias.any()


def multi_task_recognizer() -> torch.nn.Module:
    mixing = {"type": "mmvidformer.ReversedMixup", "num_classes": TASKS, "alpha": 0.3}
    return MODELS.build(
        {
            "type": "Recognizer3D",
            "backbone": {
                "type": "mmvidformer.ViViT",
                "arch": {"embed_dims": 8, "depth": 1, "num_heads": 2},
                "img_size": 16,
                "clip_len": 2,
                "stem": {"tubelet": (2, 8, 8)},
            },
            "cls_head": {"type": "mmvidformer.MultiTaskHead", "tasks": TASKS, "in_channels": 8},
            "data_preprocessor": {
                "type": "ActionDataPreprocessor",
                "mean": [127.5] * 3,
                "std": [127.5] * 3,
                "format_shape": "NCTHW",
                "blending": mixing,
            },
        }
    )


def test_recognizer_with_mixup_trains_and_predicts() -> None:
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        model = multi_task_recognizer()
    clips = [torch.randint(0, 256, (1, 3, 2, 16, 16), dtype=torch.uint8) for _ in range(4)]
    wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    before = model.cls_head.fc_cls.weight.detach().clone()
    batch = {"inputs": clips, "data_samples": samples([0, 1], [1, 2], [2, 0], [3, 1])}
    logged = model.train_step(batch, wrapper)
    assert logged["loss"].isfinite()
    assert not torch.equal(before, model.cls_head.fc_cls.weight)

    views = {"inputs": [torch.cat(clips[:3])], "data_samples": samples([0, 1])}
    with torch.no_grad():
        fused = model.eval().test_step(views)[0].pred_score
        alone = [
            model.test_step({"inputs": [clip], "data_samples": samples([0, 1])})[0].pred_score
            for clip in clips[:3]
        ]
    for name in TASKS:
        expected = torch.stack([score[name] for score in alone]).mean(0)
        torch.testing.assert_close(fused[name], expected, atol=1e-5, rtol=1e-4)


def token_head(**kwargs) -> torch.nn.Module:
    torch.manual_seed(0)
    options = {"type": "TokenMlpHead", "num_classes": 3, "in_channels": 8, "hidden_dim": 12}
    return MODELS.build({**options, **kwargs})


def test_hidden_layer_head_has_one_hidden_layer() -> None:
    torch.manual_seed(0)
    head = MODELS.build({"type": "HiddenLayerHead", "num_classes": 3, "in_channels": 8}).eval()
    wide = {"type": "HiddenLayerHead", "num_classes": 3, "in_channels": 8, "hidden_dim": 400}
    head.init_weights()
    x, hidden, out = torch.randn(5, 8), head.fc_hidden, head.fc_cls
    assert (head.in_channels, hidden.weight.shape, out.weight.shape) == (8, (8, 8), (3, 8))
    torch.testing.assert_close(head(x), out(F.gelu(x @ hidden.weight.T + hidden.bias)))
    big = MODELS.build(wide)
    big.init_weights()
    assert big.fc_hidden.weight.shape == (400, 8) and big.fc_cls.weight.shape == (3, 400)
    assert big.fc_hidden.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert not big.fc_hidden.bias.any() and not big.fc_cls.bias.any()


def test_token_head_is_pooling_norm_and_two_layers() -> None:
    head = token_head().eval()
    x = torch.randn(2, 3, 4, 5, 8)
    y = F.layer_norm(x.mean(dim=(1, 2, 3)), (8,), eps=1e-5)
    y = F.linear(y, head.fc_hidden.weight, head.fc_hidden.bias)
    y = F.linear(F.gelu(y), head.fc_cls.weight, head.fc_cls.bias)
    torch.testing.assert_close(head(x), y)


def test_token_head_drops_single_tokens() -> None:
    """The mean of many tokens stays near 1; with dropout of the mean it would be 0 or 2."""
    head = token_head(dropout_ratio=0.5).train()
    pooled = []
    head.norm.register_forward_pre_hook(lambda _, args: pooled.append(args[0]))
    head(torch.ones(1, 16, 20, 20, 8))
    torch.testing.assert_close(pooled[0], torch.ones(1, 8), atol=0.1, rtol=0)
    assert not torch.equal(pooled[0], torch.ones(1, 8))


def test_token_head_initial_weights() -> None:
    head = token_head(in_channels=64, hidden_dim=256)
    head.init_weights()
    assert abs(head.fc_hidden.weight.std().item() - 0.02) < 0.002
    assert not head.fc_hidden.bias.any() and not head.fc_cls.bias.any()


def test_recognizer_with_token_head_trains_and_predicts() -> None:
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
    labeled = samples(*range(3))
    wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    before = model.backbone.embed.proj.weight.detach().clone()
    logged = model.train_step({"inputs": clips, "data_samples": labeled}, wrapper)
    assert logged["loss"].isfinite()
    assert not torch.equal(before, model.backbone.embed.proj.weight)

    model.eval()
    views = {"inputs": [torch.cat(clips[:2])], "data_samples": labeled[:1]}
    with torch.no_grad():
        fused = model.test_step(views)[0].pred_score
        alone = [
            model.test_step({"inputs": [clip], "data_samples": labeled[:1]})[0].pred_score
            for clip in clips[:2]
        ]
    torch.testing.assert_close(fused, torch.stack(alone).mean(0), atol=1e-5, rtol=1e-4)
