"""Lists that are missing or have wrong labels end the tools in a message."""

import re

import pytest

from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.preflight.hook import WrongSetup

LISTS = {
    "label": ("train_0.mp4 0\ntrain_2.mp4 7\n", "wrong.txt, line 2: label must be in 0 to 2"),
    "no_file": (None, r"there is no file .*wrong\.txt"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_wrong_list_ends_the_tool_in_words(
    name, tiny_videos, make_config, train, tmp_path, capsys
):
    lines, message = LISTS[name]
    wrong = tmp_path / "wrong.txt"
    if lines is not None:
        wrong.write_text(lines)
    dataset = dict(ann_file=str(wrong), data_prefix=dict(video=str(tiny_videos.root)))
    config = make_config("wrong", train_dataloader=dict(dataset=dataset))
    assert run_tool(lambda: train([str(config), "--work-dir", str(tmp_path / "work")])) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_test_is_checked_too(tiny_videos, make_config, test, tmp_path):
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("train_0.mp4 0\ntrain_2.mp4 7\n")
    dataset = dict(ann_file=str(wrong), data_prefix=dict(video=str(tiny_videos.root)))
    config = make_config("wrong", test_dataloader=dict(dataset=dataset))
    with pytest.raises(WrongSetup, match="line 2: label .*\n.*preflight=None"):
        test([str(config), str(config), "--work-dir", str(tmp_path / "work")])
