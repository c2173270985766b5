"""The benchmark of int8 and run lengths, on small models."""

from benchmarks import inexact
from mmvidformer.models.fast import run_lengths


def test_rows(capsys, monkeypatch) -> None:
    # Models as small as these gain nothing, and would compute all.
    monkeypatch.setattr(run_lengths, "most_moving", lambda backbone: 0.95)
    threads = inexact.torch.get_num_threads()
    try:
        inexact.main(["int8", "runs", "training", "--tiny", "--rounds", "1"])
    finally:
        inexact.torch.set_num_threads(threads)
    head, *rows = capsys.readouterr().out.splitlines()
    assert head in ("int8, 8 bits of inputs", "int8, 7 bits of inputs")
    assert [row.split(":")[0] for row in rows[:4]] == list(inexact.MODELS)
    tokens = [int(row.split()[2].rstrip("%")) for row in rows[4:8]]
    assert tokens[0] == 100 and tokens[-1] < 60
    assert all("int8 and runs" in row for row in rows[4:8])
    *same, mixed = rows[8:]
    assert len(same) == 4 and all(row.startswith("training, ") for row in same)
    assert mixed.startswith("training, 0%, 50%, 80%, 90% still, ")
