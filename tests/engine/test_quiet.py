"""What the terminal and the log file of a run have."""

from pathlib import Path

from mmvidformer.engine.quiet import QuietRunner
from tests.engine import toys


def test_the_terminal_has_the_news_and_the_file_all(toy, monkeypatch, capsys) -> None:
    monkeypatch.setattr(toys, "Runner", QuietRunner)
    toy(log_level="INFO").logger.info("a line\nand another")
    said = capsys.readouterr().out
    assert "System environment" not in said and "Hooks will be executed" not in said
    assert "a line" not in said and "deprecated" not in said
    runner = toy(log_level="INFO")
    runner.logger.warning("two\nlines")
    runner.train()
    said = capsys.readouterr().out
    assert "two\nlines" in said and "Epoch(train)" in said
    log = next(Path(runner.work_dir).glob(f"{runner.timestamp}/*.log")).read_text()
    for text in ("System environment", "Hooks will be executed", "two\nlines", "Epoch(train)"):
        assert text in log
