"""A recognizer of a recurrent model: whole videos, frame by frame, and windows."""

import numpy as np
import pytest
import torch

from mmvidformer.apis import Capture, Recognizer


def test_recurrent_models(small, build, tmp_path, prediction_data) -> None:
    for name in ("horst_early_motion", "horst_anticipation_motion"):
        cfg = small(name)
        torch.save({"state_dict": build(cfg).state_dict()}, tmp_path / f"{name}.pth")
    video = next((prediction_data / "data" / "motion_phases" / "test").glob("*.mp4"))
    early = Recognizer(small("horst_early_motion"), str(tmp_path / "horst_early_motion.pth"))
    assert early([video, video])[1].probabilities["class"].sum() == pytest.approx(1)
    ahead = Recognizer(cfg, str(tmp_path / "horst_anticipation_motion.pth"))
    answers = ahead(video)  # after each step of 0.25 s
    with Capture(video) as source:
        steps = list(ahead.frame_by_frame(source))
    assert [one.end for one in answers] == [step.seconds for step in steps]
    for one, step in zip(answers, steps, strict=True):
        (other,) = step.predictions
        assert one.source == str(video) and one.so_far and one.moment == one.end
        np.testing.assert_allclose(one.scores["verb"], other.scores["verb"], atol=1e-5)
    with pytest.raises(ValueError, match="models of steps take no window, got 2"):
        next(ahead.timeline(video, 2))


def test_a_recurrent_model_streams_files_and_arrays_alike(
    small, build, tmp_path, prediction_data
) -> None:
    """With a window it is treated as others are."""
    cfg, path = small("horst_early_motion"), tmp_path / "early.pth"
    torch.save({"state_dict": build(cfg).state_dict()}, path)
    video = next((prediction_data / "data" / "motion_phases" / "test").glob("*.mp4"))
    recognizer = Recognizer(cfg, str(path))
    with Capture(video) as source:
        pixels, fps = [pixels for _, _, pixels in source.frames()], source.fps
    with Capture(video) as source:
        of_file = list(recognizer.stream(source))
    of_frames = list(recognizer.stream(pixels, fps))
    assert [one.seconds for one in of_file] == [one.seconds for one in of_frames]
    assert {one.source for one in of_file} == {str(video)} and of_frames[0].source is None
    for one, other in zip(of_file, of_frames, strict=True):
        np.testing.assert_allclose(one.scores["class"], other.scores["class"], atol=1e-5)
    whole = recognizer(video).probabilities["class"]
    np.testing.assert_allclose(of_file[-1].probabilities["class"], whole, atol=1e-5)
    with Capture(video) as source:
        windows = list(recognizer.stream(source, window=0.8, stride=0.4))
    for one, other in zip(windows, recognizer.timeline(video, 0.8, 0.4), strict=False):
        assert one.seconds == pytest.approx(other.seconds) and not one.so_far
        np.testing.assert_allclose(one.scores["class"], other.scores["class"], atol=1e-5)
    with pytest.raises(ValueError, match="the frame rate of the frames is unknown, set fps"):
        next(recognizer.stream(pixels))
    with pytest.raises(ValueError, match="models of windows take no delay, got 1"):
        next(recognizer.stream(pixels, fps, delay=1))
    with pytest.raises(ValueError, match="restart is for recurrent models without windows"):
        next(recognizer.stream(pixels, fps, window=1, restart=1))
