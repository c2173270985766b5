"""The weights from which rows start."""

from pathlib import Path

import pytest
from mmengine.config import Config

from lab.papers import run_rows as rows
from lab.papers import runs
from lab.papers.rows import PublishedRow, Table, find_published, read_paper
from lab.papers.run_rows import run_rows, start_of, with_start
from mmvidformer.config import load_config, merge_overrides

B21K = "timm:vit_base_patch16_224.orig_in21k"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("vivit_fe_k400", B21K),
        ("vivit/table2_ek100/model_1", "published://vivit_st_k400"),
        ("timesformer/section4_2/scratch", "random weights"),
        ("feature_fixation_sthv2", "random weights"),
        ("horst_early25_sthv2", "random weights"),
        ("horst/table5/horst", "random weights"),
        ("timesformer/table2/slowfast_3840h", "torchvision://resnet50"),
        ("timesformer/table2/slowfast_6336h", "random weights"),
        ("vivit/table5d/tsm", "torchvision://resnet50"),
    ],
)
def test_start_of_a_config(name: str, start: str) -> None:
    assert start_of(load_config(name)) == start


def test_a_checkpoint_that_mmengine_loads_comes_last() -> None:
    cfg = load_config("vivit_fe_k400", {"load_from": "a.pth"})
    assert start_of(cfg) == "a.pth"


@pytest.mark.parametrize(
    "name",
    [
        "vivit/table1/inflation",
        "feature_fixation_sthv2",
        "horst_ek55",
        "timesformer/table2/slowfast_3840h",
        "vivit/table5d/tsm",
    ],
)
def test_other_starts(name: str) -> None:
    cfg = load_config(name, {"load_from": "old.pth"})
    merge_overrides(cfg, with_start(cfg, None))
    assert start_of(cfg) == "old.pth"
    merge_overrides(cfg, with_start(cfg, "a.pth"))
    assert start_of(cfg) == "a.pth"
    if name == "vivit/table1/inflation":  # the rules for tubelets and positions stay
        assert cfg.model.backbone.init_from == {"source": "a.pth", "embed": "inflate"}
    merge_overrides(cfg, with_start(cfg, "none"))
    assert start_of(cfg) == "random weights"


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("vivit/table5d/l_fe", "a Kinetics-400 model"),
        ("vivit/table5e/l_fe_code", "a Kinetics-400 model"),
        ("vivit/section4_2/all", "a Kinetics-400 model"),
        ("vivit/section4_2/crop_flip_jitter", ""),
        ("vivit/table2_ek100/model_2", ""),
        ("feature_fixation/table3/linear", "an image model"),
        ("horst/table6/horst_url", "RULSTM's TSN-rgb.pth.tar"),
    ],
)
def test_a_row_knows_what_its_published_figure_started_from(name: str, published: str) -> None:
    start = find_published(name).start
    assert start.startswith(published) and bool(start) == bool(published)


def test_a_start_that_is_missing_is_named_before_videos_are_generated(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    measured: list[str] = []

    def measure(table: Table, row: PublishedRow, *args: object, **settings: object) -> None:
        measured.append(row.name)

    monkeypatch.setattr(rows, "generate", lambda table: measured.append("videos"))
    monkeypatch.setattr(rows, "measure", measure)
    table = read_paper("vivit").tables["table2"]
    settings = dict(miniature=True, procs=1, common={})
    row = table.rows["model_3"]
    wanted = "vivit/table2/model_3 starts from .*mmvidformer train timesformer_image_motion writes"
    with pytest.raises(FileNotFoundError, match=wanted):
        run_rows(table, [row], [0], tmp_path / "runs", **settings)
    for given in ("a.pth", "work_dirs/run/best.pth"):
        with pytest.raises(FileNotFoundError, match=f"from {given}, which does not exist; --start"):
            run_rows(table, [row], [0], tmp_path / "runs", start=given, **settings)
    assert measured == []
    (tmp_path / "a.pth").touch()
    run_rows(table, [row], [0], tmp_path / "runs", start="a.pth", **settings)
    assert measured == ["videos", row.name]


def test_rows_of_secret_weights_run_from_weights_of_the_user(tmp_path: Path, monkeypatch) -> None:
    commands: list[tuple] = []

    def run(log: Path, *command: object) -> None:
        commands.append(command)
        log.with_name("last_checkpoint").write_text("epoch_30.pth")

    monkeypatch.setattr(runs, "_run", run)
    table = read_paper("vivit").tables["table5b"]
    row, settings = table.rows["h_jft"], dict(miniature=False, procs=1, common={})
    with pytest.raises(
        ValueError, match=r"h_jft needs weights to start from .*: The image weights of JFT"
    ):
        run_rows(table, [row], [0], tmp_path, **settings)
    weights = tmp_path / "jft.npz"
    weights.touch()
    run_rows(table, [row], [0], tmp_path, start=str(weights), **settings)
    assert [command[0] for command in commands] == ["train", "test"]
    cfg = Config.fromfile(commands[0][1])
    assert cfg.model.backbone.init_from.source == str(weights)
    assert cfg.model.cls_head.num_classes == 600
