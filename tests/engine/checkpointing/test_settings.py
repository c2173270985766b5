"""A resumed run has the settings of its config, and the state of its checkpoint."""

import copy
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from torch import nn

from mmvidformer.engine.checkpointing.settings import CannotContinue, compare_settings, settings_of
from tests.engine.toys import Line, Stop, StopAt


class Record(Hook):
    """Notes the settings of the first and the last group of an optimizer in each step."""

    def __init__(self) -> None:
        self.settings: list[list[dict]] = []

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        groups = runner.optim_wrapper.optimizer.param_groups
        names = ("lr", "momentum", "weight_decay")
        self.settings.append([{name: group[name] for name in names} for group in groups])


class TwoGroups(Line):
    """A line whose second factor has a rate of its own, and no use."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Parameter(torch.ones(1))


def settings(*schedules: dict, lr: float = 1e-3, **options) -> dict:
    """Changes of a toy run; a second epoch of three steps begins after step 3."""
    optimizer = dict(type="SGD", lr=lr, momentum=0.9) | options
    paramwise = dict(custom_keys={"head": dict(lr_mult=10)})
    wrapper = dict(optimizer=optimizer, paramwise_cfg=paramwise)
    return dict(model=TwoGroups(), optim_wrapper=wrapper, param_scheduler=[*schedules])


LINE = dict(type="LinearLR", by_epoch=False, start_factor=0.1, end=9)
COSINE = dict(type="CosineAnnealingLR", by_epoch=False, T_max=9)
STEPS = dict(type="MultiStepLR", by_epoch=True, milestones=[1], gamma=0.5)
NEW = {
    # What is changed at step 4 of 9, and what is said.
    "nothing": (settings(LINE), None),
    "rate": (settings(LINE, lr=0.01), "lr 0.001 -> 0.01; lr 0.01 -> 0.1"),
    "decay": (settings(LINE, weight_decay=0.1), "weight_decay 0 -> 0.1"),
    "momentum": (settings(LINE, momentum=0.5), "momentum 0.9 -> 0.5"),
    "longer schedule": (settings(LINE | dict(end=18)), "param_scheduler"),
    "another schedule": (settings(COSINE), "param_scheduler"),
    "one schedule more": (settings(LINE, STEPS), "param_scheduler"),
    "no schedule": (settings(), "param_scheduler"),
    "all": (settings(COSINE, STEPS, lr=0.01, weight_decay=0.1), None),
}


@pytest.mark.parametrize("case", NEW)
def test_settings_are_those_of_the_config_as_if_they_had_always_been(toy, case: str) -> None:
    changes, said = NEW[case]
    whole, rest = Record(), Record()
    toy("whole", hooks=[whole], **changes | dict(model=TwoGroups())).train()
    cut = toy("cut", hooks=[StopAt(5)], checkpoint=dict(by_epoch=False), **settings(LINE))
    with pytest.raises(Stop):
        cut.train()
    checkpoint = Path(cut.work_dir, "iter_4.pth")
    runner = toy("cut", hooks=[rest], load_from=str(checkpoint), resume=True,
                 **changes | dict(model=TwoGroups()))  # fmt: skip
    warned = []
    runner.logger.warning = warned.append
    runner.train()
    for groups, expected in zip(rest.settings, whole.settings[4:], strict=True):
        assert groups == [pytest.approx(group) for group in expected]
    prefix = f"the config counts where it differs from that of {checkpoint}: "
    if said:
        assert warned == [prefix + said]
    else:
        assert bool(warned) == (case == "all")


def test_moments_are_those_of_the_checkpoint(toy) -> None:
    """The first step with another rate, by hand."""
    cut = toy("cut", hooks=[StopAt(4)], checkpoint=dict(by_epoch=False), **settings())
    with pytest.raises(Stop):
        cut.train()
    path = Path(cut.work_dir, "iter_3.pth")
    saved = torch.load(path, weights_only=True)
    rest = toy("cut", hooks=[StopAt(4)], load_from=str(path), resume=True, **settings(lr=0.01))
    with pytest.raises(Stop):
        rest.train()
    x, factor = torch.tensor(rest.model.seen[0]), saved["state_dict"]["factor"]
    moment = 0.9 * saved["optimizer"]["state"][0]["momentum_buffer"]
    moment += 2 * (factor - 2) * x.square().mean()
    torch.testing.assert_close(rest.model.factor.detach(), factor - 0.01 * moment)


def test_without_averaging_the_trained_weights_go_on_and_not_their_averages(toy) -> None:
    ema = dict(type="EMAHook", momentum=0.5)
    cut = toy("cut", hooks=[ema, StopAt(4)], checkpoint=dict(by_epoch=False))
    with pytest.raises(Stop):
        cut.train()
    whole = toy("whole")
    whole.train()
    rest = toy("cut", load_from=str(Path(cut.work_dir, "iter_3.pth")), resume=True)
    rest.train()
    torch.testing.assert_close(rest.model.factor, whole.model.factor, rtol=0, atol=0)


def frozen() -> TwoGroups:
    model = TwoGroups()
    model.head.requires_grad = False
    return model


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (settings() | dict(optim_wrapper=dict(optimizer=dict(type="AdamW", lr=1e-3))), "betas"),
        (settings() | dict(model=Line()), "2 parameters in 2 groups, that of the config 1 par"),
    ],
)
def test_the_state_of_another_optimizer_is_refused(toy, changes, reason: str) -> None:
    whole = toy("whole", **settings())
    whole.train()
    path = str(Path(whole.work_dir, "epoch_1.pth"))
    with pytest.raises(CannotContinue, match=reason):
        toy("whole", load_from=path, resume=True, **changes).train()


@pytest.mark.parametrize("content", ["weights", "no optimizer", "no steps"])
def test_a_file_that_cannot_continue_a_run_says_so(toy, tmp_path, content: str) -> None:
    whole = toy("whole")
    whole.train()
    saved = torch.load(Path(whole.work_dir, "epoch_1.pth"), weights_only=True)
    path = tmp_path / "other.pth"
    if content == "weights":
        saved = saved["state_dict"]
    else:
        del saved["optimizer" if content == "no optimizer" else "meta"]
    torch.save(saved, path)
    missing = "number of steps" if content == "no steps" else "state of the optimizer"
    with pytest.raises(CannotContinue, match=f"other.pth cannot be resumed: it has no {missing}"):
        toy("whole", load_from=str(path), resume=True).train()


OLD = Config(
    dict(
        train_cfg=dict(max_epochs=2),
        optim_wrapper=dict(optimizer=dict(lr=1e-3, betas=(0.9, 0.999))),
        param_scheduler=[dict(type="LinearLR", end=2)],
        train_dataloader=dict(batch_size=4, dataset=dict(pipeline=[dict(type="A"), {"a b": None}])),
        work_dir="first",
    )
)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"work_dir": "second"}, []),
        ({"train_cfg.max_epochs": 6}, ["train_cfg.max_epochs 2 -> 6"]),
        ({"param_scheduler.0.end": 6}, ["param_scheduler.0.end 2 -> 6"]),
        ({"custom_hooks": [dict(type="EMAHook")]}, ["custom_hooks None -> [{'type': 'EMAHook'}]"]),
        ({"train_dataloader.dataset.pipeline.1": {"type": "B"}},
         ["train_dataloader.dataset.pipeline.1.type None -> B"]),
    ],
)  # fmt: skip
def test_configs_differ_where_training_depends_on_it(changes: dict, said: list) -> None:
    new = copy.deepcopy(OLD)
    new.merge_from_dict(changes)
    assert [*compare_settings(settings_of(OLD), settings_of(new))] == said
