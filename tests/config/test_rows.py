"""Rows of the papers' tables: all resolve to configs whose keys exist."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from mmengine.config import Config

from lab.papers.rows import PublishedRow, Table, list_rows, read_paper
from lab.papers.summary import size_of
from mmvidformer import get_config
from mmvidformer.config import config_name, load_config, merge_overrides
from mmvidformer.config.rows import expand, find_row, list_papers, read_content
from tests.paper_rows import of_others

MOTION = Path(__file__).parents[2] / "benchmarks" / "motion.yml"
TABLES = [
    table for name in [*list_papers(), str(MOTION)] for table in read_paper(name).tables.values()
]
ROWS = [row for table in TABLES for row in table.rows.values()]
ABSENT = ("auto_scale_lr", "model.test_cfg")  # keys that some configs of MMAction2 lack
SMALL = [
    (table, row)
    for table in TABLES
    for row in table.rows.values()
    if not isinstance(row.miniature, str)
]

EXAMPLE = """\
title: An example
tables:
  table1:
    title: Its table
    config: vivit_fe_motion
    options: {model.backbone.drop_path_rate: 0.1}
    miniature: {config: timesformer_motion, data: data/motion_plain --preset plain}
    rows:
      plain: {published: {top1: 50}}
      deep:
        options: {model.backbone.drop_path_rate: 0.2, "{train,val}_cfg.a": 1}
        miniature: {b: 2}
      secret: {missing: The weights are not public}
"""


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """A paper of our own among the shipped ones."""
    from mmvidformer.config.shipped import config_folder

    (tmp_path / "papers").mkdir()
    for path in config_folder().glob("[_v]*"):
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "papers" / "example.yml").write_text(EXAMPLE)
    for module in ("config", "config.rows"):
        monkeypatch.setattr(f"mmvidformer.{module}.config_folder", lambda: tmp_path)
    read_paper.cache_clear()
    yield read_paper("example").tables["table1"]
    read_paper.cache_clear()
    read_content.cache_clear()


def test_a_row_has_the_options_of_its_table_and_its_own(example: Table) -> None:
    plain, deep = get_config("example/table1/plain"), load_config("example/table1/deep")
    assert (plain.model.backbone.drop_path_rate, deep.model.backbone.drop_path_rate) == (0.1, 0.2)
    assert plain.model.backbone.type == get_config("vivit_fe_motion").model.backbone.type
    assert (deep.train_cfg.a, deep.val_cfg.a) == (1, 1)
    changed = load_config("example/table1/deep", {"model.backbone.drop_path_rate": 0.3})
    assert changed.model.backbone.drop_path_rate == 0.3


def test_recipes_and_miniatures(example: Table) -> None:
    plain, deep, secret = example.rows.values()
    assert (plain.title, plain.published, secret.published) == ("plain", {"top1": 50}, {})
    assert example.recipe(deep, miniature=True) == ("timesformer_motion", {"b": 2})
    assert example.recipe(plain, miniature=True) == ("timesformer_motion", {})
    for miniature in (False, True):
        with pytest.raises(ValueError, match="table1/secret .*The weights are not public"):
            example.recipe(secret, miniature)


@pytest.mark.parametrize(
    "name, message",
    [
        ("example/table2/plain", "no table of example named 'table2'; choose from table1"),
        (
            "example/table1/pain",
            "no row of table1 named 'pain'; did you mean plain. choose from deep, plain",
        ),
        ("exmple/table1/plain", "no shipped config named 'plain'"),
    ],
)
def test_unknown_rows_are_named(example: Table, name: str, message: str) -> None:
    with pytest.raises(KeyError, match=message):
        load_config(name)


def test_rows_that_cannot_be_run_are_refused(example: Table) -> None:
    with pytest.raises(ValueError, match="cannot be run: The weights are not public"):
        load_config("example/table1/secret")


def test_names(example: Table) -> None:
    assert config_name("example/table1/plain") == "example/table1/plain"
    assert config_name("configs/vivit_fe_k400.py") == "vivit_fe_k400"
    assert config_name("some/other/file.py") == "file"


@pytest.mark.parametrize(
    "text", ["tables: [", "title: x", "title: x\ntables: {t: {title: y, rows: {r: {publshed: 1}}}}"]
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.yml").write_text(text)
    with pytest.raises(ValueError, match=r"x\.yml is no file of rows: "):
        read_paper(str(tmp_path / "x.yml"))


def test_braces_expand() -> None:
    assert expand({"{a,b}.c.{d,e}": 1, "f": 2}) == {
        **dict.fromkeys(["a.c.d", "a.c.e", "b.c.d", "b.c.e"], 1),
        "f": 2,
    }


@cache
def base(name: str) -> Config:
    return get_config(name)


def check_overrides(config: str, options: Mapping[str, object]) -> None:
    """An override sets a key that exists, or an argument of a part, which building it checks."""
    cfg = copy.deepcopy(base(config))
    for key in options:
        *parents, last = key.split(".")
        node: object = cfg
        for part in parents:
            node = node[int(part)] if isinstance(node, Sequence) else node.get(part)
            assert node is not None, f"{config} has no {part} of {key}"
        if isinstance(node, Sequence):
            assert int(last) < len(node), f"{config} has no {key}"
        elif "type" not in node:
            new = parents[:2] == ["model", "backbone"] or key in ABSENT
            assert last in node or new, f"{config} has no {key}"
    merge_overrides(cfg, options)


def test_merging_does_not_change_the_options() -> None:
    options = {"model.a": {"b": 1}, "model.a.c": 2}
    cfg = Config()
    merge_overrides(cfg, options)
    assert cfg.model.a == {"b": 1, "c": 2}
    assert options == {"model.a": {"b": 1}, "model.a.c": 2}


def test_an_item_of_a_list_is_replaced() -> None:
    cfg = Config({key: {"steps": [{"type": "A", "a": 1}, {"type": "B"}]} for key in "xy"})
    new = {"{x,y}.steps.0": {"_delete_": True, "type": "C"}, "y.steps.0.c": 2, "x.steps.1.b": 3}
    merge_overrides(cfg, expand(new))
    assert cfg.x.steps == [{"type": "C"}, {"type": "B", "b": 3}]
    assert cfg.y.steps == [{"type": "C", "c": 2}, {"type": "B"}]
    assert new["{x,y}.steps.0"] == {"_delete_": True, "type": "C"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_resolves(row: PublishedRow) -> None:
    assert row.missing or row.config, "a row has a config, or a reason"
    if row.config:
        check_overrides(row.config, row.options)
    reason = (
        "cannot be run" if row.missing else "needs weights to start from" if row.needs_start else ""
    )
    if reason:
        with pytest.raises(ValueError, match=reason):
            row.recipe()
    if not row.missing:
        assert row.recipe(has_start=True) == (row.config, row.options)
    if not row.name.startswith("motion/"):
        assert vars(find_row(row.name)).items() <= vars(row).items()


@pytest.mark.parametrize("table, row", SMALL, ids=[row.name for _, row in SMALL])
def test_each_miniature_resolves(table: Table, row: PublishedRow) -> None:
    check_overrides(*table.recipe(row, miniature=True))


def test_models_of_this_project_have_a_config() -> None:
    """Also where another paper compares with them."""
    own = ("timesformer", "vivit", "feature_fixation", "horst", "ours")
    foreign = [row.name for row in ROWS if row.config is None]
    assert not [name for name in foreign if name.rpartition("/")[2].startswith(own)]


def test_all_papers_have_rows() -> None:
    assert set(list_papers()) == {"feature_fixation", "horst", "timesformer", "vivit"}


def distinct(rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """Rows of different models, or with published sizes."""
    found: dict[str, PublishedRow] = {}
    for row in rows:
        if row.config and not of_others(row):
            model = {k: v for k, v in row.options.items() if k.startswith("model.")}
            sizes = {k: v for k, v in row.published.items() if k in ("params", "macs")}
            found.setdefault(repr((row.config, model, sizes)), row)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("row", distinct(list_rows()), ids=lambda row: row.name)
def test_each_row_builds_with_the_published_size(row: PublishedRow) -> None:
    size, published = size_of(row), row.published
    params, macs = size.parameters / 1e6, size.macs / 1e9
    assert params > 0 and macs > 0
    assert params == pytest.approx(published.get("params", params), abs=row.params_tolerance)
    assert macs == pytest.approx(published.get("macs", macs), rel=row.macs_tolerance)
