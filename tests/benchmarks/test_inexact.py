"""The benchmark of int8 and run lengths, on small models."""

from benchmarks import inexact
from mmvidformer.models import run_lengths


def test_rows(capsys, monkeypatch) -> None:
    # Models as small as these gain nothing, and would compute all.
    monkeypatch.setattr(run_lengths, "most_moving", lambda backbone: 0.95)
    threads = inexact.torch.get_num_threads()
    try:
        inexact.main(["int8", "runs", "--tiny", "--rounds", "1"])
    finally:
        inexact.torch.set_num_threads(threads)
    head, *rows = capsys.readouterr().out.splitlines()
    assert head in ("int8, 8 bits of inputs", "int8, 7 bits of inputs")
    assert [row.split(":")[0] for row in rows[:4]] == list(inexact.MODELS)
    tokens = [int(row.split()[2].rstrip("%")) for row in rows[4:]]
    assert tokens[0] == 100 and tokens[-1] < 60 and all("int8 and runs" in row for row in rows[4:])
