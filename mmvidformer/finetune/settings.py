"""The settings of the commands that train on your videos, and their options."""

import os
from argparse import BooleanOptionalAction
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mmengine.config import Config

from mmvidformer.config.fragments import Fragment, replace
from mmvidformer.data.splits import SPLITS
from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.engine.optim.precision import precision_fragment
from mmvidformer.engine.options import option
from mmvidformer.errors import UserError
from mmvidformer.tasks.table import DEFAULT, TASKS, describe_tasks, find_task

PROBES = DEFAULT.probes  # on features that are computed once
WHOLE = ("full", "lora", "adapter")  # the backbone computes in each step
METHODS = (*WHOLE, *PROBES)
AUTO = "auto"  # chooses one of them


@dataclass(frozen=True)
class RunSettings:
    """Settings of any run; None keeps the config's."""

    epochs: int | None = option("number of epochs", type=int)
    batch: int | None = option(
        "batch size per process, at most the number of videos per process", type=int
    )
    procs: int = option("number of processes, one per GPU if there are GPUs", 1, type=int)
    amp: bool = option(
        "use mixed precision: fp16 on a GPU, bf16 on a CPU", False, action="store_true"
    )
    workers: int | None = option(
        "number of dataloader workers per process (default: the config's, but at most "
        "the number of cores)",
        type=int,
    )
    seed: int = option("random seed", 0, type=int)

    def __post_init__(self) -> None:
        for name, value in dict(epochs=self.epochs, batch=self.batch, procs=self.procs).items():
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, got {value}")

    def fragment(self, cfg: Config) -> Fragment:
        """Return the workers, the precision and the seed, as a fragment of a config."""
        fragment: Fragment = {}
        for split in SPLITS:
            loader = cfg.get(f"{split}_dataloader")
            if loader:
                workers = self.workers
                if workers is None:
                    workers = min(loader.num_workers, os.cpu_count() or 1)
                fragment[f"{split}_dataloader"] = {"num_workers": workers}
        if self.amp:
            fragment |= precision_fragment(cfg)
        randomness = {**(cfg.get("randomness") or {}), "seed": self.seed}
        return fragment | replace(cfg, "randomness", randomness)


@dataclass(frozen=True)
class Recipe(RunSettings):
    """Fine-tuning settings; None keeps the config's, whose schedule is stretched to the epochs."""

    lr: float | None = option(
        "learning rate (default: the config's, scaled by the total batch size; ten times "
        "that for LoRA and adapters)",
        type=float,
    )
    method: str = option(
        "what is trained: what suits the number of videos, the weights and the processor, "
        "as a line explains (auto, the default); all weights (full); low-rank updates and the "
        "head (lora); adapters with a convolution over time, and the head (adapter); the head "
        "alone, for classes on features that are computed once: a linear "
        "one (logistic regression), one on the changes between frames (temporal), for up to "
        "2,000 videos, or one with attention over the tokens (attentive); or nothing: the "
        "nearest neighbors vote, and their accuracy is printed (knn)",
        "full",
        choices=(AUTO, *METHODS),
        nargs="+",
    )
    lora_rank: int = option("rank of the updates of LoRA", 8, type=int)
    lora_alpha: float = option(
        "the updates of LoRA are multiplied by alpha / rank", 16.0, type=float
    )
    lora_layers: Sequence[str] = option(
        "last parts of the names of the linear layers that have updates (default: qkv and proj)",
        ("qkv", "proj"),
        nargs="+",
        metavar="NAME",
    )
    token_keep: float | None = option(
        "share of the tokens that are computed in training, such as 0.5; in the last "
        "fifth of the steps all are (default: the config's)",
        type=float,
        metavar="SHARE",
    )
    layer_decay: float | None = option(
        "factor between the learning rates of a layer and the next one, such as 0.75", type=float
    )
    task: str = option(
        f"what to predict: {describe_tasks()}; or MODULE:CLASS of a task of your own",
        DEFAULT.name,
        metavar=f"{{{','.join(TASKS)}}}",
    )
    balance: str | None = option(
        "balance the classes by weights of the loss, or by sampling",
        choices=("weights", "sampling"),
    )

    @property
    def is_probe(self) -> bool:
        """Whether a classifier is fit on features that are computed once."""
        return self.method in find_task(self.task).probes


@dataclass(frozen=True)
class RunOptions:
    """What a command that trains on your videos reads, and where it writes."""

    config: str
    data: str
    cfg_options: dict[str, Any] | None = None
    force: bool = False
    resume: bool = False
    work_dir: str | None = option("default: work_dirs/<config>_<command>", metavar="FOLDER")

    @property
    def trains(self) -> bool:
        """Whether the run can go on after an interruption."""
        return True


@dataclass(frozen=True)
class FinetuneOptions(RunOptions):
    """All options of ``mmvidformer finetune``.

    Attributes:
        recipe: The settings of the training.
        annotations: How ``data`` is read if it is no folder of lists.
        guesses_task: Whether no task is given: that of an export is found.
        methods: Those that ``compare`` runs; empty for all that fit.
        fold: The fold to train and test on.
        folds: Train and test on all folds; how many are drawn of annotations, 0 if they state them.
    """

    recipe: Recipe = Recipe()
    annotations: AnnotationOptions = AnnotationOptions()
    guesses_task: bool = False
    methods: Sequence[str] = ()
    fold: str | None = None
    folds: int | None = None
    weights: str | None = option(
        "checkpoint or address to start from, of this project or any that mmvidformer convert "
        "reads (default: as in the config)",
        metavar="FILE",
    )
    compare: bool | None = option(
        "run several methods, or all that fit, and print what they reach and cost",
        action=BooleanOptionalAction,
    )
    features: Path | None = option(
        "folder of features (default: WORK_DIR/features)", type=Path, metavar="FOLDER"
    )
    shards: str | None = option("folder or address with the shards of the lists", metavar="FOLDER")
    prepare: bool = option("write the config, do not train", False, action="store_true")

    @property
    def trains(self) -> bool:
        """Whether the run can go on after an interruption: no probe can."""
        return self.recipe.method not in PROBES

    def describe(self, *unrecorded: str) -> dict[str, str]:
        """Return the options by name as text, but some, to compare commands with each other."""
        values = {}
        for owner in (self, self.recipe, self.annotations):
            for setting in fields(owner):
                if setting.name not in ("recipe", "annotations", *unrecorded):
                    values[setting.name] = str(getattr(owner, setting.name))
        return values
