"""The preflight check of scripts without a guard."""

import multiprocessing
import runpy
from pathlib import Path

import pytest

from tests.engine.test_preflight import found

GUARD = 'if __name__ == "__main__":\n    '
SCRIPTS = {
    # What a script does, the number of workers, how they start, and the errors and warnings.
    "no guard": ("check()", 2, "forkserver", 1, 0),
    "in a function": ("def main():\n    check()\n\nmain(\n)", 2, "spawn", 1, 0),
    "another condition": ("if 1 < 2:\n    check()", 2, "forkserver", 0, 1),
    "a guard": (f"{GUARD}check()", 2, "forkserver", 0, 0),
    "another guard": ("if __name__ != '__main__':\n    pass\nelse:\n    check()", 2, "spawn", 0, 0),
    "a guard of other lines": (f"{GUARD}pass\ncheck()", 2, "spawn", 1, 0),
    "no workers": ("check()", 0, "forkserver", 0, 0),
    "forks": ("check()", 2, "fork", 0, 0),
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_a_script_without_guard_is_named_at_once(config, monkeypatch, case) -> None:
    """Workers import it, and would start the run again, which ends them; the run would wait."""
    text, workers, method, *counts = SCRIPTS[case]
    context = multiprocessing.context._default_context
    monkeypatch.setattr(context, "_actual_context", multiprocessing.get_context())  # to restore it
    cfg = config(**{"env_cfg.mp_cfg.mp_start_method": method})
    cfg.train_dataloader.num_workers = workers
    lists = []
    Path("script.py").write_text(text)
    check = dict(check=lambda: lists.extend(found(cfg)))
    runpy.run_path("script.py", check, run_name="__main__")
    assert [*map(len, lists)] == counts
    line = text.count("\n") + (case != "in a function")
    for problem in sum(lists, []):
        assert f"script.py, line {line}: the run starts without 'if __name__ ==" in problem


def test_a_package_that_is_run_needs_no_guard(config, monkeypatch, tmp_path) -> None:
    context = multiprocessing.context._default_context
    monkeypatch.setattr(context, "_actual_context", multiprocessing.get_context())
    cfg = config(**{"env_cfg.mp_cfg.mp_start_method": "spawn"})
    cfg.train_dataloader.num_workers = 2
    Path("tool").mkdir()
    Path("tool/__main__.py").write_text("check()")
    Path("tool/script.py").write_text("check()")
    monkeypatch.syspath_prepend(tmp_path)
    for module, count in (("tool", 0), ("tool.script", 1)):
        lists = []
        check = dict(check=lambda lists=lists: lists.extend(found(cfg)))
        runpy.run_module(module, check, run_name="__main__", alter_sys=True)
        assert [*map(len, lists)] == [count, 0]
