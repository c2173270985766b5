import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from mmengine.config import Config

from lab.synthetic.directions import DirectionsSpec
from mmvidformer import get_config
from mmvidformer.apis import class_names, class_tasks, known_names
from mmvidformer.checkpoints.labels import read_labels


def test_names_of_text_and_csv_files(tmp_path: Path) -> None:
    verbs, nouns, actions = (tmp_path / n for n in ("verbs.txt", "nouns.csv", "actions.csv"))
    verbs.write_text("take\nput\n")
    nouns.write_text("id,key,instances\n0,tap,[]\n2,pan,[]\n1,plate,[]\n")
    actions.write_text("id, verb, noun, action\n0, 0, 1, take plate\n1, 1, 2, put pan\n")
    tasks = {"action": 2, "verb": 2, "noun": 3}
    found = class_names(tasks, [f"verb={verbs}", f"noun={nouns}", f"action={actions}"])
    assert found == {
        "action": ["take plate", "put pan"],
        "verb": ["take", "put"],
        "noun": ["tap", "plate", "pan"],
    }
    assert class_names(tasks, [f"noun={nouns}"]) == {
        "action": ["0", "1"],
        "verb": ["0", "1"],
        "noun": ["tap", "plate", "pan"],
    }
    assert class_names({"class": 2}, [str(verbs)]) == {"class": ["take", "put"]}


def test_names_that_do_not_fit_are_reported(tmp_path: Path) -> None:
    verbs, nouns = tmp_path / "verbs.txt", tmp_path / "nouns.csv"
    verbs.write_text("take\nput\n")
    nouns.write_text("id,key\n0,tap\n2,pan\n1,plate\n")
    with pytest.raises(ValueError, match="task 'noun' has 4 classes, but 3 names"):
        class_names({"noun": 4}, [f"noun={nouns}"])
    with pytest.raises(ValueError, match="task 'class' has 3 classes, but 2 names"):
        class_names({"class": 3}, [str(verbs)])
    with pytest.raises(ValueError, match="given as verb=FILE noun=FILE, got 'x.txt'"):
        class_names({"verb": 2, "noun": 3}, ["x.txt"])
    nouns.write_text("id,key\n0,tap\n2,pan\n3,plate\n")
    with pytest.raises(ValueError, match="nouns.csv: column 'id' must number the classes from 0"):
        class_names({"noun": 3}, [str(nouns)])
    for text, what in {
        "id,key\n0,tap\nb\n": "line 3: there is no key",
        "id,key\n0,tap\nx,pan\n": "line 3: id is 'x', not a whole number",
        "id,key\n0,tap\n0,pan\n": "line 3: class 0 has another name above",
    }.items():
        nouns.write_text(text)
        with pytest.raises(ValueError, match=f"nouns.csv, {what}"):
            class_names({"noun": 2}, [str(nouns)])
    for count in ("abc", 1e9, -1):  # of an override
        with pytest.raises(ValueError, match=f"'class' must have a number .* got {count!r}"):
            class_names({"class": count})
    for text in ("noun,name\n0,tap\n", ""):
        nouns.write_text(text)
        with pytest.raises(ValueError, match="nouns.csv must have a column of .'id'"):
            class_names({"noun": 1}, [f"noun={nouns}"])


def test_names_default_to_those_of_the_config_or_numbers() -> None:
    one = {"class": 2}
    assert class_names(one) == {"class": ["0", "1"]}
    assert class_names(one, [], ["left", "up"]) == {"class": ["left", "up"]}
    assert class_names(one, {"class": ["a", "b"]}, ["left", "up"]) == {"class": ["a", "b"]}
    with pytest.raises(ValueError, match="'class' has 2 classes, but 1 names"):
        class_names(one, None, ["left"])
    two = {"noun": 1, "verb": 2}
    assert class_names(two, {"verb": ["a", "b"]}) == {"noun": ["0"], "verb": ["a", "b"]}


def test_tasks_are_those_of_the_head() -> None:
    def tasks(head: dict) -> dict:
        return class_tasks(Config({"model": {"cls_head": head}}))

    assert tasks({"num_classes": 2}) == {"class": 2}
    assert tasks({"tasks": {"noun": 1, "verb": 2}}) == {"noun": 1, "verb": 2}
    with pytest.raises(ValueError, match="must have a cls_head with num_classes or tasks"):
        tasks({})


def test_names_of_checkpoint_config_and_dataset(cfg: Config, tmp_path: Path) -> None:
    """In this order; those of checkpoint and dataset only if there are as many as classes."""
    model = SimpleNamespace(dataset_meta={"classes": ["a", "b", "c"]})
    assert known_names(cfg) is None
    (tmp_path / "classes.txt").write_text("left\nright\nup\n")
    cfg.val_dataloader.dataset.metainfo = dict(classes=str(tmp_path / "classes.txt"))
    assert known_names(cfg) == ["left", "right", "up"]
    cfg.test_dataloader.dataset.metainfo = dict(classes="labels://kinetics400")
    assert known_names(cfg) == ["left", "right", "up"]
    (tmp_path / "classes.txt").unlink()
    assert known_names(cfg) is None
    cfg.class_names = ["x", "y"]  # too few: class_names raises
    assert known_names(cfg, model) == ["a", "b", "c"]
    assert known_names(cfg, SimpleNamespace(dataset_meta={"classes": ["a"]})) == ["x", "y"]


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("timesformer_b_k400", "zumba"),
        ("timesformer_hr_k600", "zumba"),
        ("feature_fixation_k600", "zumba"),
        ("vivit_l_fe_sthv2", "Wiping something off of something"),
        ("vivit_l_fe_mit", "typing"),
        ("timesformer/table7/l_diving48", "Reverse+Dive+NoTwis+TUCK"),
    ],
)
def test_shipped_configs_name_their_classes(name: str, last: str) -> None:
    cfg = get_config(name)
    found = known_names(cfg)
    assert len(found) == cfg.model.cls_head.num_classes
    wanted = read_labels(cfg.test_dataloader.dataset.metainfo.classes)
    assert found == wanted and found[-1] == last


def test_names_of_a_shipped_list_need_no_registry() -> None:
    """A process that answers imports neither it nor MMAction2."""
    code = (
        "import sys; from mmvidformer import get_config; from mmvidformer.apis import names; "
        "print(names.known_names(get_config('vivit_fe_k400'))[-1], 'mmaction' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "zumba False\n"


def test_quick_start_names_its_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = DirectionsSpec(train=1, val=1, test=1)
    spec.write(tmp_path / "data" / "motion")
    monkeypatch.chdir(tmp_path)
    assert known_names(get_config("vivit_fe_motion")) == spec.class_names
