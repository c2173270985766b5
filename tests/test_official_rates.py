"""Learning rates of the shipped configs against those that the official functions return."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from mmaction.registry import PARAM_SCHEDULERS
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.hub import get_config as mmengine_config
from mmengine.model import BaseModel
from mmengine.runner import Runner

from lab.papers.rows import list_rows
from mmvidformer import get_config, list_models
from mmvidformer.config.shipped import config_folder

MMACTION = "timesformer_divST_8xb8-8x32x1-15e_kinetics400-rgb.py"
TSM = "tsm/tsm_imagenet-pretrained-r50_8xb16-1x1x8-50e_sthv2-rgb.py"
SLOWFAST = "slowfast/slowfast_r50_8xb8-8x8x1-256e_kinetics400-rgb.py"
# Rows of other networks, and their epochs by appendix A of TimeSformer's paper, or RU's code.
SHARES = (25, 50, 75, 100)
OF_OTHERS = {
    **{f"horst/table{number}/ru_rgb": 100 for number in (5, 6, 7)},
    **{
        f"timesformer/table2/{name}": epochs
        for name, epochs in dict(
            i3d_444h=36, i3d_1440h=118, slowfast_448h=14, slowfast_3840h=118, slowfast_6336h=196
        ).items()
    },
    **{
        f"timesformer/figure4/{network}_{data}_{share}": 118
        for network in ("slowfast", "i3d")
        for data in ("k400", "sthv2")
        for share in SHARES
    },
    "timesformer/table7/slowfast_diving48": 118,
    **{f"timesformer/table8/slowfast_{frames}": 118 for frames in (8, 32, 64, 96)},
}

OFFICIAL = yaml.safe_load(Path(__file__).with_name("official_rates.yml").read_text())
CONFIGS = {
    "vivit_base_k400": ["vivit_st_k400", "vivit_fsa_k400", "vivit_fdp_k400"],
    "vivit_base_fe_k400": ["vivit_fe_k400"],
    "vivit_large_fe_k400": ["vivit_l_fe_k400", "vivit_l_st_k400", "vivit_h_st_k400"],
    "vivit_large_fe_k600": ["vivit_l_fe_k600"],
    "vivit_large_fe_ek100": ["vivit_l_fe_ek100"],
    "vivit_large_fe_ssv2": ["vivit/table5e/l_fe_code"],
    "vivit_table7_mit": ["vivit_l_fe_mit"],
    "timesformer": [
        *(f"timesformer_{size}_{data}" for size in ("b", "hr", "l") for data in ("k400", "k600")),
        *(f"timesformer_{size}_sthv2" for size in ("b", "hr", "l")),
        *("timesformer_b_diving48", "timesformer_b_howto100m"),
        *("timesformer_b_ava22", "timesformer_b_charades"),
    ],
    "feature_fixation_ssv2": ["feature_fixation_sthv2"],
    "feature_fixation_k400": ["feature_fixation_k400"],
    "feature_fixation_k600": ["feature_fixation_k600"],
    "videomae_b_k400": ["videomae_b_k400"],
    "videomae_b_ssv2": ["videomae_b_sthv2"],
    "vjepa2": ["vjepa2_l_sthv2", "vjepa2_h_sthv2", "vjepa2_g_sthv2"],
    "actionformer_thumos": ["features_thumos14"],
    "actionformer_anet": ["features_anet13"],
}
TEXT = [name for name in list_models() if name.startswith("horst_")]
# Recipes of this project. feature_fixation_image is like DeiT's, whose rate changes by epochs.
OWN = [name for name in list_models() if name.endswith("_motion") and "horst" not in name]
OWN.append("feature_fixation_image")
SAME = {  # as another config: other sizes of a model, and encoders whose authors publish no recipe
    **{f"videomae{name}_k400": "videomae_b_k400" for name in ("_s", "_l", "_h", "2_s", "2_b")},
    **{f"videomae{name}_sthv2": "videomae_b_sthv2" for name in ("_s", "2_g")},
    **{f"videoprism_{size}_k400": "vjepa2_l_sthv2" for size in "bl"},
    **{f"vjepa2_1_{size}_sthv2": "vjepa2_l_sthv2" for size in "bl"},
    **{f"internvideo_next_{size}_k400": "vjepa2_l_sthv2" for size in "bl"},
    "onevision_l_k400": "vjepa2_l_sthv2",
    "levjepa_l_sthv2": "vjepa2_l_sthv2",
    "streamformer_b_k400": "vjepa2_l_sthv2",
    "trecvit_b_k400": "videomae_b_k400",
    "vivit_h_st_k600": "vivit_h_st_k400",
}


class Parameter(BaseModel):
    """A model of one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, inputs: list[torch.Tensor], mode: str) -> dict[str, torch.Tensor]:
        return {"loss": self.weight.sum() * len(inputs)}


class RateHook(Hook):
    """Keeps the learning rate of each step."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: object) -> None:
        self.rates.append(runner.optim_wrapper.param_groups[0]["lr"])


def train(cfg: Config, steps_per_epoch: int, folder: Path) -> list[float]:
    """Learning rate of each step of a run of MMEngine's runner with the schedule of a config."""
    hook = RateHook()
    off = dict.fromkeys(("timer", "logger", "checkpoint", "sampler_seed", "runtime_info"))
    runner = Runner(
        model=Parameter(),
        work_dir=str(folder),
        train_dataloader=dict(
            dataset=[{"inputs": torch.ones(1)}] * steps_per_epoch,
            batch_size=1,
            num_workers=0,
            sampler=dict(type="DefaultSampler", shuffle=False),
        ),
        train_cfg=dict(by_epoch=True, max_epochs=cfg.train_cfg.max_epochs),
        optim_wrapper=dict(optimizer=dict(type="SGD", lr=cfg.optim_wrapper.optimizer.lr)),
        param_scheduler=cfg.param_scheduler,
        default_hooks=off,
        custom_hooks=[hook],
        default_scope="mmaction",
        experiment_name=folder.name,
    )
    runner.train()
    return hook.rates


def step_through(cfg: Config, steps_per_epoch: int) -> list[float]:
    """The same as ``train``, without the runner: for epochs of thousands of steps."""
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=cfg.optim_wrapper.optimizer.lr)
    built = dict(optimizer=optimizer, epoch_length=steps_per_epoch)
    schedulers = [PARAM_SCHEDULERS.build(one, default_args=built) for one in cfg.param_scheduler]
    rates = []
    for _ in range(cfg.train_cfg.max_epochs * steps_per_epoch):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for scheduler in schedulers:
            if not scheduler.by_epoch or len(rates) % steps_per_epoch == 0:
                scheduler.step()
    return rates


def check(rates: list[float], official: dict, series: dict, least: float = 2e-12) -> None:
    """Compare rates with the official ones to 1e-6 of each, or ``least`` times the highest.

    Ours begin at 1e-12 of the rate where MMEngine's schedules cannot begin at 0.
    """
    assert len(rates) == official["epochs"] * series["steps_per_epoch"]
    compared = [rates[step] for step in series["steps"]]
    assert compared == pytest.approx(series["rates"], rel=1e-6, abs=least * official["base"])


def schedule(name: str) -> tuple:
    cfg = get_config(name)
    return cfg.param_scheduler, cfg.train_cfg.max_epochs, cfg.optim_wrapper.optimizer.lr


@pytest.mark.parametrize("recipe", [name for name in OFFICIAL if name != "vjepa2"])
def test_rates_of_a_run_are_the_official_ones(recipe: str, tmp_path: Path) -> None:
    """To 1e-6; the numbers of scenic are rounded to 32 bits."""
    official, (first, *others) = OFFICIAL[recipe], CONFIGS[recipe]
    series = official["series"][0]
    check(train(get_config(first), series["steps_per_epoch"], tmp_path), official, series)
    for name in others:
        assert schedule(name) == schedule(first), name


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [name for name in OFFICIAL if name != "vjepa2"])
def test_rates_are_the_official_ones_with_as_many_steps(recipe: str) -> None:
    official = OFFICIAL[recipe]
    series = official["series"][1]
    rates = step_through(get_config(CONFIGS[recipe][0]), series["steps_per_epoch"])
    if recipe == "vivit_large_fe_k600":  # its warm-up has 14187.5 steps, ours 14187
        check(rates, official, series, least=0.5 / 14187)
    else:
        check(rates, official, series)


def test_vjepa2_has_the_rate_of_the_step_before(tmp_path: Path) -> None:
    official = OFFICIAL["vjepa2"]
    series = official["series"][0]
    first, *others = CONFIGS["vjepa2"]
    rates = train(get_config(first), series["steps_per_epoch"], tmp_path)
    check([*rates[1:], 0.0], official, series)
    for name in others:
        assert schedule(name) == schedule(first), name


def test_paper_s_own_rate_on_something_something(tmp_path: Path) -> None:
    """Table 7 of ViViT (arXiv) has .5, the official config .4; the curve is the same."""
    official = OFFICIAL["vivit_large_fe_ssv2"]
    series = official["series"][0]
    rates = train(get_config("vivit_l_fe_sthv2"), series["steps_per_epoch"], tmp_path)
    check([0.4 / 0.5 * rate for rate in rates], official, series)


@pytest.mark.parametrize("name", TEXT)
def test_horst_follows_its_text(name: str, tmp_path: Path) -> None:
    """No training code was released: .002, "cosine annealed to 0 on the final 25% of epochs"."""
    cfg, steps = get_config(name), 8
    rates = train(cfg, steps, tmp_path)
    shares = np.arange(len(rates)) / len(rates)
    phases = [max(0, share - 0.75) / 0.25 for share in shares]
    assert cfg.train_cfg.max_epochs == 50 or name.endswith("_motion")
    assert cfg.optim_wrapper.optimizer.lr == 0.002
    assert rates == pytest.approx([0.001 * (1 + math.cos(math.pi * x)) for x in phases])


@pytest.mark.parametrize("name", OWN)
def test_schedules_of_our_own_recipes_rise_and_fall(name: str, tmp_path: Path) -> None:
    cfg, steps = get_config(name), 1000 if name == "camera_motion" else 10
    rates = np.divide(train(cfg, steps, tmp_path), cfg.optim_wrapper.optimizer.lr)
    warmup = cfg.param_scheduler[0]
    peak = warmup.end * (steps if warmup.get("convert_to_iter_based") else 1)
    assert rates[0] < 0.02 and rates[-1] < 0.02
    assert np.argmax(rates) == pytest.approx(peak, abs=1)
    assert (np.diff(rates[:peak]) > 0).all() and (np.diff(rates[peak:]) <= 0).all()


def test_every_config_has_a_source() -> None:
    names = {path.stem for path in (config_folder() / "tasks").glob("*.py")}
    official = [name for names in CONFIGS.values() for name in names]
    listed = [*official, *OWN, *TEXT, *SAME, "vivit_l_fe_sthv2"]
    listed += ["camera_motion_videos", "videomae_b_ava22"]  # the latter: test_configs_tasks
    listed += ["tsm_r50_ek100", "slowfast_r50_ek100"]
    assert len(listed) == len({*listed})
    assert {name for name in listed if "/" not in name} == {*list_models(), *names}


def test_some_configs_have_the_schedule_of_another() -> None:
    for name, base in SAME.items():
        assert schedule(name) == schedule(base)


def test_rows_keep_the_schedule_of_their_config() -> None:
    keys = ("param_scheduler.", "train_cfg.")
    changed = {row.name for row in list_rows() if any(key.startswith(keys) for key in row.options)}
    assert changed == {
        "feature_fixation/table1/ours_text",  # the recipe of table10/sthv2
        *OF_OTHERS,
        *(f"feature_fixation/table10/{name}" for name in ("sthv2", "k400", "k600")),
        *(f"timesformer/mmaction2/{name}" for name in ("divided", "joint", "space")),
    }


def test_rows_of_table_10_have_its_epochs(tmp_path: Path) -> None:
    """35 epochs, warm-up from the released rates; the curve is that of the official code."""
    for name, start in (("sthv2", 0.003), ("k400", 0.01), ("k600", 0.01)):
        cfg = get_config(f"feature_fixation/table10/{name}")
        rates = train(cfg, 4, tmp_path / name)
        top = 0.035 * (1 + math.cos(math.pi * 5 / 35)) / 2
        assert rates[::4][:6] == pytest.approx(np.linspace(start, top, 6).tolist(), rel=1e-4)
        fall = [0.035 * (1 + math.cos(math.pi * epoch / 35)) / 2 for epoch in range(5, 35)]
        assert rates[::4][5:] == pytest.approx(fall)


@pytest.mark.parametrize(("row", "epochs"), OF_OTHERS.items())
def test_networks_of_others_rise_and_fall_in_the_epochs_of_their_row(row: str, epochs: int) -> None:
    """Milestones and the end of a cosine are within them, also where training is shortened."""
    cfg = get_config(row)
    assert cfg.train_cfg.max_epochs == epochs
    for scheduler in cfg.param_scheduler:
        ends = [*scheduler.get("milestones", ()), scheduler.get("end"), scheduler.get("T_max")]
        assert all(end <= epochs for end in ends if end is not None)


@pytest.mark.parametrize(
    ("name", "official"), [("tsm_r50_ek100", TSM), ("slowfast_r50_ek100", SLOWFAST)]
)
def test_networks_of_mmaction2_have_its_recipe(name: str, official: str) -> None:
    ours, theirs = get_config(name), mmengine_config(f"mmaction::recognition/{official}")
    assert [dict(x) for x in ours.param_scheduler] == [
        {key: value for key, value in x.items() if key != "by_epoch"}
        for x in theirs.param_scheduler
    ]
    assert ours.train_cfg.max_epochs == theirs.train_cfg.max_epochs
    assert ours.optim_wrapper == theirs.optim_wrapper
    of_8_gpus = 8 * theirs.train_dataloader.batch_size
    assert ours.auto_scale_lr.base_batch_size == of_8_gpus


def test_rows_of_mmaction2_have_its_recipe() -> None:
    theirs = mmengine_config("mmaction::recognition/timesformer/" + MMACTION)
    ours = get_config("timesformer/mmaction2/divided")
    (schedule,) = ours.param_scheduler
    (wanted,) = theirs.param_scheduler
    assert [*schedule.milestones] == wanted.milestones and schedule.gamma == wanted.gamma
    assert ours.train_cfg.max_epochs == theirs.train_cfg.max_epochs == wanted.end
    optimizers = [cfg.optim_wrapper.optimizer for cfg in (ours, theirs)]
    for key in ("type", "lr", "momentum", "weight_decay", "nesterov"):
        assert optimizers[0][key] == optimizers[1][key], key
    assert ours.optim_wrapper.clip_grad == theirs.optim_wrapper.clip_grad
    assert 8 * ours.train_dataloader.batch_size == theirs.auto_scale_lr.base_batch_size
