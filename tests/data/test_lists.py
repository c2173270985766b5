"""MMAction2's lists, read as MMAction2 reads them, and their faults."""

from pathlib import Path

import pytest
from mmaction.datasets import VideoDataset

from mmvidformer.data.listed_videos import ListedVideoDataset
from mmvidformer.data.lists import read_list


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        (tmp_path / "list.txt").write_bytes(text.encode())
        return tmp_path / "list.txt"

    return write


@pytest.mark.parametrize(
    "text",
    [
        "a.mp4 0\nb/c 12\n",
        "a.mp4 0\r\nb.mp4 1",
        "a b.mp4\t0\nc.mp4\t1\n",
        "a.mp4\nb.mp4\n",
        "a.mp4 1 3\nb.mp4 2\n",
        "a\u2028b.mp4 1\n",
        "",
    ],
)
def test_videos(write, text) -> None:
    file, several = write(text), text.count("1 3") > 0
    entries = read_list(file)
    delimiter = "\t" if "\t" in text else " "
    options = dict(multi_class=several, num_classes=9, delimiter=delimiter)
    dataset = VideoDataset(str(file), [], data_prefix=dict(video=""), lazy_init=True, **options)
    infos = dataset.load_data_list()
    assert [line.path for line in entries] == [info["filename"] for info in infos]
    assert "".join(line.text for line in entries) == text


@pytest.mark.parametrize(
    "line, options, form",
    [
        ("a b.mp4 1", {}, "PATH LABEL ..."),
        ("", {}, "PATH LABEL ..."),
        ("b.mp4 1 2", dict(multi_class=False), "PATH LABEL"),
        ("b.mp4,x", dict(delimiter=","), "PATH LABEL ..."),
    ],
)
def test_a_line_of_another_form_is_named(write, line, options, form) -> None:
    first = options.get("delimiter", " ").join(["a", "3"])
    with pytest.raises(ValueError) as error:
        read_list(write(f"{first}\n{line}\n{first}\n"), **options)
    assert f"list.txt, line 2: expected '{form}' with the delimiter" in str(error.value)
    assert str(error.value).endswith(f"got {line!r}")
    assert ("(tabs, if paths have spaces)" in str(error.value)) is ("delimiter" not in options)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a b.mp4\t0\nc.mp4\t1\n", ["a b.mp4", "c.mp4"]),
        ("a b.mp4,0\nc,d.mp4,1\n", None),
        ("a b.mp4,0\nc.mp4,1\n", ["a b.mp4", "c.mp4"]),
        ("a b.mp4, 0\r\nc.mp4, 1\r\n\r\n", ["a b.mp4", "c.mp4"]),
        ("a,1.mp4 0\nb,2 1\n", ["a,1.mp4", "b,2"]),
        ("\ufeffa.mp4 0\n\n\n", ["a.mp4"]),
    ],
    ids=["tabs", "comma in a name", "commas", "spaces, CRLF", "spaces with commas", "mark"],
)
def test_check_and_training_find_the_same_delimiter(write, text, paths) -> None:
    file = write(text)
    options = dict(data_prefix=dict(video=""), pipeline=[])
    if paths is None:
        for read in (read_list, lambda path: ListedVideoDataset(str(path), **options)):
            with pytest.raises(ValueError, match="list.txt, line 2: expected 'PATH LABEL"):
                read(file)
        return
    assert [line.path for line in read_list(file)] == paths
    dataset = ListedVideoDataset(str(file), **options)
    infos = [dataset.get_data_info(number) for number in range(len(dataset))]
    assert [info["filename"] for info in infos] == paths
    assert [info["label"] for info in infos] == [line.labels[0] for line in read_list(file)]


def test_encoding(write) -> None:
    assert read_list(write("\ufeffa.mp4 0\n"))[0][1] == "a.mp4"
    file = write("")
    file.write_bytes("ł.mp4 0\n".encode("cp1250"))
    with pytest.raises(ValueError, match="list.txt must be text in UTF-8"):
        read_list(file)
