"""Long lists: the samples of MMAction2's dataset, shared by workers."""

from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch
from mmaction.datasets import VideoDataset
from torch.utils.data import DataLoader, Subset

from mmvidformer.data.bad_videos import SafeDataset
from mmvidformer.data.labels import label_table
from mmvidformer.data.listed_videos import ListedVideoDataset
from mmvidformer.finetune.balance import BalancedSampler

pytestmark = pytest.mark.usefixtures("scope")

LISTS = {
    "plain": (b"a.mp4 0\nb/c.mp4 2\n", {}),
    "no end": (b"a.mp4 0\nb/c.mp4 2", {}),
    "windows": (b"a.mp4 0\r\nb.mp4 -1\r\n", {}),
    "old mac": (b"a.mp4 0\rb.mp4 1\r", {}),
    "without labels": (b"a.mp4\nb.mp4\n", {}),
    "spaces": (b"my file.mp4\t3\n\xc3\xa4.mp4\t1\n", dict(delimiter="\t")),
    "several": (b"a.mp4 0 2\nb.mp4\nc.mp4 1\n", dict(multi_class=True, num_classes=3)),
}


@pytest.mark.parametrize("prefix", ["videos", ""])
@pytest.mark.parametrize("name", LISTS)
def test_samples_are_those_of_mmaction2(tmp_path, name, prefix) -> None:
    text, options = LISTS[name]
    file = tmp_path / "list.txt"
    file.write_bytes(text)
    arguments = dict(ann_file=str(file), pipeline=[], data_prefix=dict(video=prefix), **options)
    theirs, ours = VideoDataset(**arguments), ListedVideoDataset(**arguments)
    assert len(theirs) == len(ours)
    for number in range(len(theirs)):
        wanted, got = theirs.get_data_info(number), ours.get_data_info(number)
        assert str(wanted) == str(got)
    few = ListedVideoDataset(**arguments, indices=1)
    assert len(few) == 1 and few.labels is None
    assert str(few.get_data_info(0)) == str(theirs.get_data_info(0))
    for wanted, got in zip(label_table(theirs), label_table(ours), strict=True):
        np.testing.assert_array_equal(wanted, got)


def test_a_byte_order_mark_is_no_part_of_a_path(tmp_path) -> None:
    file = tmp_path / "list.txt"
    file.write_bytes(b"\xef\xbb\xbfa.mp4 0\n")
    assert ListedVideoDataset(str(file), []).get_data_info(0)["filename"] == "a.mp4"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a.mp4 0\nb.mp4 x\n", "line 2: expected 'PATH LABEL'.*'b.mp4 x'"),
        ("a.mp4 0 1\n", "line 1: expected 'PATH LABEL'.*'a.mp4 0 1'"),
    ],
)
def test_wrong_lines_are_named(tmp_path, text, reason) -> None:
    file = tmp_path / "list.txt"
    file.write_text(text)
    with pytest.raises(ValueError, match=reason):
        ListedVideoDataset(str(file), [])


class Infos(torch.utils.data.Dataset):
    """Gives file names and where the samples of a data set are in memory."""

    def __init__(self, dataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, number) -> str:
        return self.dataset.get_data_info(number)["filename"]


@pytest.mark.parametrize("kind", [VideoDataset, ListedVideoDataset])
def test_workers_get_no_copy(tmp_path, kind) -> None:
    """What is pickled for a worker does not grow with the list."""
    sizes = []
    for count in (10, 20_000):
        file = tmp_path / f"{count}.txt"
        file.write_text("".join(f"{number:06d}.mp4 {number % 5}\n" for number in range(count)))
        dataset = SafeDataset(kind(str(file), []))
        sizes.append(len(ForkingPickler.dumps(dataset)))
    assert sizes[1] < sizes[0] + 200
    few = Subset(Infos(dataset), range(0, 20_000, 5000))
    loader = DataLoader(few, batch_size=2, num_workers=1, multiprocessing_context="forkserver")
    assert [*loader] == [["000000.mp4", "005000.mp4"], ["010000.mp4", "015000.mp4"]]


def test_balance_reads_no_sample(tmp_path, monkeypatch) -> None:
    file = tmp_path / "list.txt"
    file.write_text("a 0\nb 0\nc 0\nd 1\n")
    dataset = SafeDataset(ListedVideoDataset(str(file), []))
    slow = BalancedSampler(SafeDataset(VideoDataset(str(file), []))).weights
    monkeypatch.setattr(ListedVideoDataset, "get_data_info", None)
    weights = BalancedSampler(dataset).weights
    assert torch.equal(weights, slow)
    assert float(weights[3] / weights[0]) == pytest.approx(3, abs=1e-5)
