"""The task of ``examples/repetitions.py``, which is one file, is known to all commands."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from mmvidformer.apis import Recognizer
from mmvidformer.config import load_config
from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.offer_options import Limits
from mmvidformer.registry import METRICS, MODELS
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.names import FIELD_NAMES
from mmvidformer.tasks.table import TASKS, find_task, spell_task, task_of
from mmvidformer.web.answers import Answer, answer_page

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
TASK = "repetitions:Repetitions"


@pytest.fixture
def module(monkeypatch) -> Iterator[None]:
    """The folder of the file is where Python looks; what it registers is gone afterwards."""
    monkeypatch.syspath_prepend(EXAMPLES)
    forget_module()
    yield
    forget_module()


def forget_module() -> None:
    """Forget the task, so that another test can import it."""
    MODELS.module_dict.pop("CountHead", None)
    METRICS.module_dict.pop("CountMetric", None)
    sys.modules.pop("repetitions", None)


@pytest.mark.usefixtures("module")
def test_a_task_in_one_file(
    main_of, test, make_config, tiny_videos, tmp_path: Path, capsys
) -> None:
    root, run = tmp_path / "gym", tmp_path / "run"
    root.mkdir()
    rows = ["video,count,split"]
    for split, count in (("train", 6), ("val", 4)):
        rows += [f"{tiny_videos.root}/{split}_{i}.mp4,{i % 3},{split}" for i in range(count)]
    file = root / "all.csv"
    file.write_text("\n".join([*rows, f"{tiny_videos.root}/val_4.mp4,1.5,val", ""]))
    assert main_of("data.check")([str(file), "--task", TASK]) == 1
    fault = f"{file}, line 12: a count must be a whole number from 0, got 1.5"
    assert fault in capsys.readouterr().out
    assert run_tool(lambda: main_of("data.list")([str(file), "--task", TASK])) == 2
    assert fault in capsys.readouterr().err
    file.write_text("\n".join([*rows, ""]))
    main_of("data.list")([str(file), "--task", TASK])

    options = ["--config", str(make_config("gym")), "--data", str(root), "--task", TASK]
    options += ["--work-dir", str(run), "--epochs", "1", "--batch", "3", "--workers", "0"]
    main_of("finetune")(options)
    assert "task repetitions: mmvidformer.CountHead" in capsys.readouterr().out
    config, best = str(run / "finetune" / "config.py"), str(next(run.glob("best_count_*.pth")))
    task = task_of(load_config(config))
    assert (task.name, spell_task(task)) == ("repetitions", TASK)

    list_of_val = root / "val.csv"
    list_of_val.write_text(f"{list_of_val.read_text()}gone.mp4,2\n")
    test([config, best, "--cfg-options", "bad_videos.max_bad_share=0.5"])
    metrics = json.loads(next(run.glob("test_*.json")).read_text())["metrics"]
    assert metrics["bad_videos"] == 1 and np.isfinite(metrics["count/error"])
    assert metrics["count/off_by_one"] <= 4 / 5  # the missing video is wrong
    video = str(tiny_videos.root / "val_0.mp4")
    assert main_of("demo")([config, best, video, "--json", str(tmp_path / "out.json")]) == 0
    (record,) = map(json.loads, (tmp_path / "out.json").read_text().splitlines())
    assert record["count"] >= 0
    assert not main_of("export")([config, best, "--out", str(tmp_path / "gym.pt2")])
    recognizer = Recognizer(config, best)
    parts = answer_page(recognizer, Limits(), Path(video), str(tmp_path))
    (shown, *_) = [part for part in parts if isinstance(part, Answer)]
    assert shown.headline.startswith("count ") and shown.classes is None


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("lables", "no task named 'lables'; choose from classes, labels, .* or give MODULE:CLASS"),
        (":Task", "no task named ':Task'; .* or give MODULE:CLASS"),
        (".tasks:Task", "no task named '.tasks:Task'; .* or give MODULE:CLASS"),
        ("no_such_module:Task", "task no_such_module:Task: No module named"),
        ("json:Task", "task json:Task: module 'json' has no attribute 'Task'"),
        ("json:JSONDecoder", "JSONDecoder is no subclass of mmvidformer.tasks.base.Task"),
    ],
)
def test_a_task_that_is_not_found(name: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        find_task(name)


def test_errors_of_a_module_keep_their_place(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "task_with_a_mistake.py").write_text("import json\njson.lods('1')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AttributeError, match="lods"):
        find_task("task_with_a_mistake:Task")


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("TimeSformerHead", "classes"),
        ("mmvidformer.MultiLabelHead", "labels"),
        ("mmvidformer.NumberHead", "number"),
        ("mmvidformer.FramesHead", "frames"),
        ("mmaction.mmvidformer.SegmentsHead", "segments"),
        ("mmvidformer.BoxesHead", "boxes"),
    ],
)
def test_a_config_without_a_task_has_that_of_its_head(head: str, name: str) -> None:
    assert task_of(Config(dict(model=dict(cls_head=dict(type=head))))).name == name


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_a_task_has_the_names_of_papers_too(task: Task) -> None:
    """The commands take them, and the pages say them; configs state the short one."""
    page, readme = (
        (ROOT / name).read_text().replace("-", " ") for name in ("docs/tasks.md", "README.md")
    )
    for name in FIELD_NAMES[task.name]:
        for spelling in (name, name.replace("-", " "), name.replace("-", " ").capitalize()):
            assert spell_task(find_task(spelling)) == task.name
        assert name.replace("-", " ") in page
    assert FIELD_NAMES[task.name][0].replace("-", " ") in readme
