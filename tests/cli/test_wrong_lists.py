"""Lists that are missing or have wrong labels end the tools in a message."""

import re

import pytest

from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.preflight.hook import WrongSetup
from tests.video.toys import write

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


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("Jump", "jump", "'jump' is spelled almost as 'Jump'"),
        ("F\u00fcttern", "f\u00fcttern", "'f\u00fcttern' is spelled almost as 'F\u00fcttern'"),
        ("jump up", "jumpup", "'jumpup' is spelled almost as 'jump up'"),
        ("jump", "jump\u200b", r"'jump\u200b' is spelled almost as 'jump'"),
        ("cafe\u0301", "caf\u00e9", r"'caf\xe9' is spelled almost as 'cafe\u0301'"),
    ],
    ids=ascii,
)
def test_classes_that_look_alike_are_named(first, second, said, main_of, tmp_path, capsys) -> None:
    """They may be one class, typed by two people."""
    for name in "abc":
        write(tmp_path / f"{name}.mp4")
    rows = f"a.mp4,{first}\nb.mp4,{second}\nc.mp4,run\n"
    (tmp_path / "all.csv").write_text(f"video,label\n{rows}", encoding="utf-8")
    main_of("data.list")([str(tmp_path / "all.csv"), "--task", "classes", "--no-check"])
    out = capsys.readouterr().out
    assert out.count("is spelled almost as") == 1
    assert f"warning: the class {said}" in out
