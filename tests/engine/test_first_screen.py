"""What the terminal shows while a runner is built, and when it starts."""

from mmengine.logging import print_log

from mmvidformer.engine.first_screen import FirstScreenHook, quiet_setup
from tests.engine.toys import Line


class Talkative(Line):
    """A model that logs while it is built."""

    def __init__(self) -> None:
        super().__init__()
        print_log("a setting", logger="current")
        print_log("something is wrong", logger="current", level=30)


def test_only_warnings_are_on_the_terminal_before_the_start(toy, capsys) -> None:
    with quiet_setup():
        runner = toy(model=dict(type=Talkative), log_level="INFO")
    before = capsys.readouterr().out
    assert "something is wrong" in before and len(before.splitlines()) == 1
    runner.register_hook(FirstScreenHook())
    runner.train()
    printed = capsys.readouterr().out
    with open(runner.logger.log_file) as file:
        logged = file.read()
    for text in ("something is wrong", "a setting", "System environment:", "samples  train 12"):
        assert text in logged
    assert "System environment:" not in printed
    assert "  model    Talkative(), 0.00 M parameters\n  samples  train 12\n" in printed
    assert printed.index("samples") < printed.index("Checkpoints will be saved")
