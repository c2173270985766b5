"""MMAction2's lists, read as MMAction2 reads them, and their faults."""

from pathlib import Path

import pytest
from mmaction.datasets import VideoDataset

from mmvidformer.datasets.lists import read_list


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
    assert [path for _, path in entries] == [info["filename"] for info in infos]
    assert "".join(text for text, _ in entries) == text


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
        read_list(write(f"{first}\n{line}\n"), **options)
    assert f"list.txt, line 2: expected '{form}' with the delimiter" in str(error.value)
    assert str(error.value).endswith(f"got {line!r}")


def test_encoding(write) -> None:
    assert read_list(write("\ufeffa.mp4 0\n"))[0][1] == "a.mp4"
    file = write("")
    file.write_bytes("ä.mp4 0\n".encode("latin-1"))
    with pytest.raises(ValueError, match="list.txt must be text in UTF-8"):
        read_list(file)
