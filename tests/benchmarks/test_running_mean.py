import torch

from benchmarks.running_mean import RunningMean


def test_running_mean_of_the_frames_so_far_without_order() -> None:
    torch.manual_seed(0)
    net = RunningMean(3, [4, 8], [1, 2])
    clip = torch.randn(2, 5, 3, 4, 6)
    output = net(clip)[0]
    assert output.y.shape == (2, 5, 8, 2, 3)
    single = torch.stack([net.layers(frame) for frame in clip.unbind(1)], dim=1)
    torch.testing.assert_close(output.e, single)
    torch.testing.assert_close(output.y[:, 2], single[:, :3].mean(1))
    torch.testing.assert_close(net(clip.flip(1))[0].y[:, -1], output.y[:, -1])
    padded = net(clip, torch.tensor([5, 3]))[0].y
    assert torch.equal(padded[1, :3], output.y[1, :3]) and not padded[1, 3:].any()


def test_running_mean_streams_the_clip() -> None:
    torch.manual_seed(0)
    net = RunningMean(3, [4])
    clip, state = torch.randn(2, 5, 3, 4, 4), None
    expected = net(clip)[0].y
    for t, frame in enumerate(clip.unbind(1)):
        output, state = net.step(frame, state)
        torch.testing.assert_close(output.y, expected[:, t])
