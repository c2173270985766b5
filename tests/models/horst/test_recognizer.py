"""Early recognition and anticipation through MMAction2's interfaces."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from mmaction.structures import ActionDataSample
from mmengine.optim import OptimWrapper
from mmengine.registry import DefaultScope
from torch import nn
from torch.utils._pytree import tree_leaves

from mmvidformer.models.horst.layer import HorstOutput
from mmvidformer.registry import MODELS
from tests.models.tiny import perturb

TASKS = {"verb": 3, "noun": 4, "action": 6}


def build(cfg: dict) -> nn.Module:
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope("mmaction"):
        return MODELS.build(copy.deepcopy(cfg))


def early(**head: object) -> dict:
    return {
        "type": "mmvidformer.RecurrentRecognizer",
        "backbone": {"type": "mmvidformer.ConvStem", "channels": 8},
        "neck": {"type": "mmvidformer.Horst", "in_channels": 8, "channels": [8, 12]},
        "cls_head": {
            "type": "mmvidformer.LastStepHead",
            "num_classes": 3,
            "in_channels": 12,
            "average_clips": "score",
            "topk": (1,),
            **head,
        },
        "data_preprocessor": {
            "type": "mmvidformer.VideoDataPreprocessor",
            "mean": [110.0, 120.0, 130.0],
            "std": [50.0, 60.0, 70.0],
            "format_shape": "NCTHW",
        },
    }


def anticipation(classifier: str = "linear", **head: object) -> dict:
    return {
        "type": "mmvidformer.RecurrentRecognizer",
        "backbone": {"type": "torch.nn.Identity"},
        "neck": {"type": "mmvidformer.Horst", "in_channels": 5, "channels": [8, 8]},
        "cls_head": {
            "type": "mmvidformer.AnticipationHead",
            "tasks": TASKS,
            "in_channels": 8,
            "classifier": classifier,
            "topk": (1,),
            **head,
        },
    }


def causal(**backbone: object) -> dict:
    """A recognizer without a neck."""
    return {
        **{name: part for name, part in early(in_channels=16).items() if name != "neck"},
        "backbone": {
            "type": "mmvidformer.VideoTransformer",
            "arch": {"embed_dims": 16, "depth": 2, "num_heads": 2},
            "img_size": 16,
            "stem": {"tubelet": (1, 8, 8)},
            "block": [{"pattern": {"type": "causal_time", "past": 3}}, {"pattern": "space"}],
            "positions": "space",
            "pool": "none",
            **backbone,
        },
    }


def clips(*lengths: int, views: int = 1) -> dict:
    """A batch of the dataloader with RGB clips (views, 3, T, 16, 16)."""
    torch.manual_seed(1)
    samples = []
    for i in range(len(lengths)):
        samples.append(ActionDataSample())
        samples[-1].set_gt_label(i % 3)
    inputs = [torch.randint(0, 256, (views, 3, n, 16, 16), dtype=torch.uint8) for n in lengths]
    return {"inputs": inputs, "data_samples": samples}


def maps(batch: int = 3, steps: int = 14) -> dict:
    """A batch of stored maps (T, 5, 4, 6), each with a verb, a noun and an action."""
    torch.manual_seed(1)
    samples = []
    for i in range(batch):
        samples.append(ActionDataSample())
        samples[-1].set_gt_label([i, i + 1, i + 3])
    return {"inputs": list(torch.randn(batch, steps, 5, 4, 6)), "data_samples": samples}


def train(model: nn.Module, data: dict, steps: int) -> list[float]:
    wrapper = OptimWrapper(torch.optim.Adam(model.parameters(), lr=1e-2))
    return [model.train_step(copy.deepcopy(data), wrapper)["loss"].item() for _ in range(steps)]


def without_gradient(model: nn.Module, data: dict) -> list[str]:
    """Names of the parameters that get no gradient in a training step."""
    losses = model(**model.data_preprocessor(copy.deepcopy(data), training=True), mode="loss")
    model.zero_grad()
    model.parse_losses(losses)[0].backward()
    return [name for name, parameter in model.named_parameters() if parameter.grad is None]


@pytest.mark.parametrize(
    "cfg",
    [
        early(),
        causal(),
        causal(positions="time", clip_len=5),
        causal(cls="sink", pool="cls"),
    ],
    ids=["horst", "causal", "positions in time", "class token"],
)
def test_clips_of_different_lengths_are_scored_as_alone(cfg: dict) -> None:
    model = perturb(build(cfg).eval())
    with torch.no_grad():
        together = [s.pred_score for s in model.test_step(clips(5, 2, 3))]
        data = clips(5, 2, 3)
        for i, scores in enumerate(together):
            single = {name: [values[i]] for name, values in data.items()}
            torch.testing.assert_close(model.test_step(single)[0].pred_score, scores)


def test_features_of_each_stage() -> None:
    model, given = build(early()).eval(), torch.randn(2, 4, 3, 16, 16)
    maps, neck, head = (model.extract_feat(given, one)[0] for one in ("backbone", "neck", "head"))
    torch.testing.assert_close(model.neck(maps, None)[0].y, neck.y)
    torch.testing.assert_close(model.cls_head(neck), head)


def test_score_is_linear_in_the_mean_of_the_last_output() -> None:
    head = build(early()["cls_head"])
    y = torch.randn(2, 4, 12, 3, 5)
    logits = head(HorstOutput(y, y, y), torch.tensor([4, 2]))
    last = torch.stack([y[0, 3], y[1, 1]]).mean((2, 3))
    torch.testing.assert_close(logits, head.fc_cls(last))


def test_views_have_the_length_of_their_clip() -> None:
    model = build(early()).eval()
    data = clips(4, 2, views=2)
    with torch.no_grad():
        fused = [s.pred_score for s in model.test_step(copy.deepcopy(data))]
        for i, scores in enumerate(fused):
            views = [
                model.test_step({"inputs": [view[None]], "data_samples": [ActionDataSample()]})[0]
                for view in data["inputs"][i]
            ]
            expected = torch.stack([view.pred_score for view in views]).mean(0)
            torch.testing.assert_close(scores, expected)


@pytest.mark.parametrize("cfg", [early, causal])
def test_early_recognition_trains_every_parameter(cfg: Callable) -> None:
    model = build(cfg())
    data = clips(4, 2, 3)
    losses = train(model, data, 12)
    assert losses[-1] < 0.5 * losses[0]
    assert not without_gradient(model, data)


@pytest.mark.parametrize("cfg", [early, causal])
def test_stream_predicts_what_the_clip_predicts(cfg: Callable) -> None:
    model = build(cfg()).eval()
    frames = torch.randn(2, 4, 3, 16, 16)
    with torch.no_grad():
        states = None
        for t in range(4):
            output, states = model.stream(frames[:, t], states)
            expected = model.cls_head(model.extract_feat(frames[:, : t + 1])[0])
            torch.testing.assert_close(model.cls_head(output), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("cfg", [early, causal])
def test_stream_keeps_no_graph_of_earlier_frames(cfg: Callable) -> None:
    model, states = build(cfg()), None
    for frame in torch.randn(3, 2, 3, 16, 16):
        output, states = model.stream(frame, states)
    kept = tree_leaves([output, getattr(states, "past", states)])
    assert len(kept) > 3 and not any(x.requires_grad for x in kept)


@pytest.mark.parametrize("classifier", ["linear", "unrolling"])
def test_a_causal_transformer_anticipates(classifier: str) -> None:
    cfg = {**causal(), "cls_head": {**anticipation(classifier)["cls_head"], "in_channels": 16}}
    cfg["data_preprocessor"] = {"type": "ActionDataPreprocessor", "format_shape": "NCTHW"}
    model = build(cfg)
    data = {**maps(), "inputs": list(torch.randn(3, 1, 3, 14, 16, 16))}
    assert not without_gradient(model, data)
    model.eval()
    with torch.no_grad():
        clip = model.cls_head(model.extract_feat(torch.stack(data["inputs"]))[0])
        states = None
        for t, frames in enumerate(torch.stack(data["inputs"])[:, 0].unbind(2)):
            output, states = model.stream(frames, states)
            if t >= 6:
                found = model.cls_head(output, ahead=[14 - t])
                for task in TASKS:
                    torch.testing.assert_close(found[task][:, 0], clip[task][:, t - 6])


def test_without_a_neck_the_backbone_must_run_frame_by_frame() -> None:
    for options, match in (
        ({"block": [{"pattern": "time"}]}, "encoders.0: pattern 'time' sees later frames"),
        ({"pool": "mean"}, "use pool='none'"),
        ({"stem": {"tubelet": (2, 8, 8)}}, "must have one frame, got 2"),
    ):
        with pytest.raises(ValueError, match=match) as error:
            build(causal(**options))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("classifier", ["linear", "unrolling"])
@pytest.mark.parametrize("form", ["official", "paper"])
def test_anticipation_trains_every_parameter(classifier: str, form: str) -> None:
    model = build(anticipation(classifier, form=form))
    data = maps(steps=9)
    assert not without_gradient(model, data)
    losses = train(model, data, 12)
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("times", [8, None])
def test_loss_is_summed_over_tasks_and_times(times: int | None) -> None:
    model = build(anticipation(times=times)).eval()
    data = model.data_preprocessor(maps(), training=True)
    losses = model(**data, mode="loss")
    logits = model.cls_head(model.extract_feat(data["inputs"])[0])
    for i, task in enumerate(TASKS):
        assert logits[task].shape == (3, times or 14, TASKS[task])
        labels = torch.stack([s.gt_label for s in data["data_samples"]])[:, i]
        expected = sum(F.cross_entropy(step, labels) for step in logits[task].unbind(1))
        torch.testing.assert_close(losses[f"loss_{task}"], expected)
    right = logits["action"][:, -4].argmax(1) == labels
    assert losses["top1_acc"].item() == pytest.approx(right.float().mean().item())


def test_time_steps_look_ahead_up_to_the_action() -> None:
    """The last 8 of 14 time steps are unrolled 8 to 1 times: 2 to 0.25 s at 4 frames per second."""
    model = build(anticipation("unrolling")).eval()
    seen = []
    forward = model.cls_head.classifier.forward
    model.cls_head.classifier.forward = lambda *args: (seen.append(args[-1]), forward(*args))[1]
    with torch.no_grad():
        model.test_step(maps())
        output, _ = model.stream(torch.randn(2, 5, 4, 6))
        logits = model.cls_head(output, ahead=[4])
    assert seen == [[8, 7, 6, 5, 4, 3, 2, 1], [4]]
    assert logits["noun"].shape == (2, 1, 4)


def test_predictions_have_scores_for_each_anticipation_time() -> None:
    model = build(anticipation()).eval()
    data = maps()
    with torch.no_grad():
        samples = model.test_step(copy.deepcopy(data))
        logits = model.cls_head(model.extract_feat(torch.stack(data["inputs"]))[0])
    for i, sample in enumerate(samples):
        assert sample.pred_score.keys() == set(TASKS)
        for task, scores in sample.pred_score.items():
            torch.testing.assert_close(scores, logits[task][i])
