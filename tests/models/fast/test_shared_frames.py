"""SharedFrames: the scores of separate clips, with the frames that they share encoded once."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from mmaction.structures import ActionDataSample
from torch import Tensor, nn

from mmvidformer.models import TimeSformer, VideoTransformer, ViViT
from mmvidformer.models.fast.inference import optimize_for_inference
from mmvidformer.models.fast.shared_frames import SharedFrames, frames_of_stage, split_stages
from mmvidformer.models.single_frames import encode_frames, encodes_frames, forward_frames
from tests.export.recognizers import EARLY, build, causal, clips, stream
from tests.models.tiny import ARCH, perturb

TUBE = dict(arch=ARCH, clip_len=8, img_size=16, stem=dict(tubelet=(2, 8, 8)))
PATCH = {**TUBE, "stem": dict(tubelet=(1, 8, 8))}
CAUSAL = dict(block=({"pattern": "causal_time"},), positions="none")
TOKENS_HEAD = dict(type="mmvidformer.TokenMlpHead", num_classes=5, in_channels=16)

BACKBONES = {
    "vivit 2": ViViT(**TUBE),
    "vivit 2, means": ViViT(pool="mean", **TUBE),
    "frames averaged": ViViT(temporal_depth=0, **TUBE),
    "frames averaged, means": ViViT(temporal_depth=0, pool="mean", **TUBE),
    "frames averaged, tokens": ViViT(temporal_depth=0, pool="none", **TUBE),
    "space only": TimeSformer(scheme="space_only", **PATCH),
    "averaged, then space": VideoTransformer(
        encoders=(dict(frames="average", cls="mean"), dict(cls="mean")), fc_norm="layer", **TUBE
    ),
    "causal": VideoTransformer(
        encoders=(dict(frames="pool", positions="space"), CAUSAL), pool="none", **TUBE
    ),
}
RECOGNIZERS = {
    "vivit 2": (clips("ViViT", scheme="factorized_encoder", stem=dict(tubelet=(2, 8, 8))), 2),
    "limited views": (
        {
            **clips("TimeSformer", scheme="space_only", stem=dict(tubelet=(1, 8, 8))),
            "type": "mmvidformer.MultiViewRecognizer",
            "test_cfg": dict(max_testing_views=2),
        },
        1,
    ),
    "tokens": (
        {
            **clips("ViViT", temporal_depth=0, pool="none", stem=dict(tubelet=(2, 8, 8))),
            "cls_head": TOKENS_HEAD,
        },
        2,
    ),
    "horst": (stream(EARLY), 1),
}


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("name", BACKBONES)
@torch.no_grad()
def test_a_backbone_in_two_parts(name: str, optimized: bool) -> None:
    torch.manual_seed(0)
    model = perturb(copy.deepcopy(BACKBONES[name])).eval()
    clip = torch.randn(2, 3, 8, 16, 24)
    expected = model(clip)
    fast = optimize_for_inference(model) if optimized else model
    assert encodes_frames(model)
    features = encode_frames(fast, clip)
    alone = torch.cat([encode_frames(fast, part) for part in clip.split(2, dim=2)], dim=2)
    for found in (features, alone):
        torch.testing.assert_close(forward_frames(fast, found), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [dict(), dict(stem=dict(tubelet=(3, 8, 8), stride=(1, 8, 8)), encoders=(dict(frames="pool"),))],
    ids=["whole clips", "tubelets that overlap"],
)
def test_models_that_see_whole_clips_have_no_stages(options: dict) -> None:
    model = VideoTransformer(**{**TUBE, **options})
    assert not encodes_frames(model)
    assert frames_of_stage(nn.ModuleDict({"backbone": model})) is None
    assert split_stages(build(clips("ViViT", scheme="spacetime"))) is None
    assert split_stages(build(causal(EARLY))) is None


def sample(video: Tensor, numbers: np.ndarray, clip_count: int = 1) -> dict:
    """Data of a pipeline for clips of a video (crops, C, T, H, W), first all clips of a crop."""
    crops = video[:, :, numbers.flatten()].unflatten(2, (clip_count, -1)).transpose(1, 2)
    data_sample = ActionDataSample(metainfo=dict(frame_inds=numbers.flatten()))
    return dict(inputs=[crops.flatten(0, 1)], data_samples=[data_sample])


def counted(model: nn.Module) -> tuple[SharedFrames, list[int]]:
    """What shares frames, and a list to which the numbers of blocks that it encodes are added."""
    stages, rows = split_stages(model), list[int]()

    def encode(blocks: Tensor) -> Tensor:
        rows.append(len(blocks))
        return stages.encode(blocks)

    return SharedFrames(stages._replace(encode=encode)), rows


def scores(model: nn.Module | SharedFrames, data: dict) -> Tensor:
    with torch.no_grad():
        return model.test_step(copy.deepcopy(data))[0].pred_score


@pytest.fixture
def video() -> Tensor:
    """Two crops of 24 frames, the second one mirrored."""
    generator = torch.Generator().manual_seed(1)
    frames = torch.randint(256, (1, 3, 24, 16, 16), generator=generator, dtype=torch.uint8)
    return torch.cat([frames, frames.flip(-1)])


@pytest.mark.parametrize("name", RECOGNIZERS)
def test_windows_have_the_scores_of_separate_clips(name: str, video: Tensor) -> None:
    cfg, size = RECOGNIZERS[name]
    model = build(cfg)
    assert frames_of_stage(model) == size
    shared, rows = counted(model)
    for first in range(0, 17, 2):
        data = sample(video, np.arange(first, first + 8))
        torch.testing.assert_close(scores(shared, data), scores(model, data), rtol=0, atol=1e-5)
    assert rows == [2 * 8 // size] + [2 * 2 // size] * 8
    assert len(shared.features) == 2 * 8 // size  # those of a window


def test_frames_between_those_of_the_last_window_are_known(video: Tensor) -> None:
    """Clips at interval 2, one frame apart, share those of the last but one."""
    model = build(RECOGNIZERS["horst"][0])
    shared, rows = counted(model)
    for first in range(6):
        data = sample(video[:1], np.arange(first, first + 8, 2))
        torch.testing.assert_close(scores(shared, data), scores(model, data), rtol=0, atol=1e-5)
    assert rows == [4, 4, 1, 1, 1, 1]


def test_clips_of_a_sample_share_frames(video: Tensor) -> None:
    model = build(RECOGNIZERS["vivit 2"][0])
    shared, rows = counted(model)
    numbers = np.arange(0, 9, 4)[:, None] + np.arange(8)
    data, other = (sample(frames, numbers, clip_count=3) for frames in (video, video.flip(2)))
    torch.testing.assert_close(scores(shared, data), scores(model, data), rtol=0, atol=1e-5)
    assert rows == [2 * 8]  # 16 frames in pairs, of two crops
    batch = {key: data[key] + other[key] for key in data}
    shared = SharedFrames(split_stages(model))
    found = [x.pred_score for x in shared.test_step(copy.deepcopy(batch))]
    expected = [x.pred_score for x in model.test_step(batch)]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_without_numbers_nothing_is_shared(video: Tensor) -> None:
    model = build(RECOGNIZERS["vivit 2"][0])
    shared, rows = counted(model)
    data = sample(video, np.arange(8))
    for numbers in ({}, dict(frame_inds=np.arange(7)), dict(frame_inds=np.arange(32))):
        other = {**data, "data_samples": [ActionDataSample(metainfo=numbers)]}
        torch.testing.assert_close(scores(shared, other), scores(model, data))
    assert not rows and not shared.features


def test_threads_share_a_model_but_no_features(video: Tensor) -> None:
    model = build(RECOGNIZERS["vivit 2"][0])
    stages = split_stages(model)

    def run(number: int) -> list[Tensor]:
        """Score the windows of the video, rolled by as many frames."""
        shared, rolled = SharedFrames(stages), video.roll(number, dims=2)
        windows = [sample(rolled, np.arange(first, first + 8)) for first in range(0, 17, 2)]
        return [scores(shared, window) for window in windows]

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, range(4)))
    for number, found in enumerate(together):
        torch.testing.assert_close(found, run(number), rtol=0, atol=1e-6)


def test_stages_share_the_weights_and_keep_no_graph(video: Tensor) -> None:
    model = build(RECOGNIZERS["vivit 2"][0])
    stages = split_stages(model)
    ours = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in stages.after.parameters()} == ours
    shared = SharedFrames(stages)
    shared.test_step(sample(video, np.arange(8)))
    assert shared.features and not any(x.requires_grad for x in shared.features.values())
