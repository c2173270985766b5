"""Real trackers, of which each gets a run, its test, and the run that is resumed."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmvidformer.engine.run_options import TRACKERS


def read_records(log: bytes) -> Iterator[bytes]:
    """Records of a log as LevelDB writes it, in parts that lie in blocks of 32 KiB."""
    place, record = 7, b""  # after the header of the file
    while place + 7 <= len(log):
        if 32768 - place % 32768 < 7:
            place += 32768 - place % 32768
            continue
        size, kind = struct.unpack_from("<HB", log, place + 4)  # after a checksum
        record += log[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # a whole record, or the last part of one
            yield record
            record = b""


def read_back(name: str, work_dir: Path) -> tuple[dict[str, list[float]], set[str]]:
    """What a real tracker has of the last run: values by name, and names of pictures."""
    run = json.loads((work_dir / "trackers.json").read_text())[name]
    if name == "tensorboard":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(run).Reload()
        tags = events.Tags()
        values = {tag: [event.value for event in events.Scalars(tag)] for tag in tags["scalars"]}
        assert "config/text_summary" in tags["tensors"]
        return values, set(tags["images"])
    if name == "mlflow":
        from mlflow import MlflowClient

        client = MlflowClient(f"sqlite:///{work_dir}/mlflow.db")
        found = client.get_run(run)
        assert found.data.params["train_cfg.max_epochs"] == "1"
        metrics = {key: client.get_metric_history(run, key) for key in found.data.metrics}
        pictures = {path.name.partition("+")[0] for path in work_dir.rglob("images/*.png")}
        return {key: [one.value for one in rows] for key, rows in metrics.items()}, pictures
    if name == "trackio":
        from trackio.sqlite_storage import SQLiteStorage

        rows = SQLiteStorage.get_logs("mmvidformer", run)
        assert SQLiteStorage.get_run_config("mmvidformer", run)["train_cfg"]["max_epochs"] >= 1
    else:
        from wandb.proto.wandb_internal_pb2 import Record

        rows = []
        for file in sorted(work_dir.glob(f"wandb/offline-run-*-{run}/*.wandb")):
            for data in read_records(file.read_bytes()):
                items = Record.FromString(data).history.item
                keys = [item.key or "/".join(item.nested_key) for item in items]
                texts = [json.loads(item.value_json) for item in items]
                rows += [dict(zip(keys, texts, strict=True))] if keys else []
    numbers = {key for row in rows for key, value in row.items() if isinstance(value, int | float)}
    values = {key: [row[key] for row in rows if key in row] for key in numbers}
    names = {key.partition("/")[0] for row in rows for key in row}
    return values, names & {"confusion", "errors"}


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACKERS)
def test_real_trackers_get_a_run_its_test_and_what_follows(
    name: str, train, test, make_config, tmp_path: Path, monkeypatch
) -> None:
    """Offline; with a model that does not learn, so that there are errors."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read by its import
    pytest.importorskip(name)
    config = make_config("tracked", train_cfg=dict(max_epochs=1))
    options = ["--work-dir", str(tmp_path), "--seed", "0", "--log", name, "--cfg-options"]
    frozen = "optim_wrapper.optimizer.lr=0.0"
    train([str(config), *options, frozen])
    test([str(config), str(tmp_path / "epoch_1.pth"), *options[:2], "--log", name])
    train([str(config), "--resume", "--epochs", "2", *options, frozen])
    values, pictures = read_back(name, tmp_path)
    logs = sorted(tmp_path.glob("*/vis_data/scalars.json"))
    rows = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    for key in ("loss", "acc/top1"):
        assert values[key] == pytest.approx([row[key] for row in rows if key in row])
        assert len(values[key]) == 2
    results = json.loads(next(tmp_path.glob("test_*.json")).read_text())["metrics"]
    assert values["test/acc/top1"] == pytest.approx([results["acc/top1"]])
    assert results["acc/top1"] < 1 and pictures == {"confusion", "errors"}
    assert name not in (tmp_path / "tracked.py").read_text().lower()
