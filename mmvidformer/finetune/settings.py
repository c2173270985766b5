"""The settings of the commands that train on your videos, and their options."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from mmvidformer.engine.annotation_options import AnnotationOptions
from mmvidformer.engine.model_options import CONFIG, OverrideOptions
from mmvidformer.engine.options import Options, flag, option, part
from mmvidformer.engine.run_options import log_option
from mmvidformer.errors import UserError
from mmvidformer.tasks.names import DEFAULT_NAME, FIELD_NAMES, PROBES, describe_tasks

WHOLE = ("full", "lora", "adapter")  # the backbone computes in each step
METHODS = (*WHOLE, *PROBES)
AUTO = "auto"  # chooses one of them


@dataclass(frozen=True)
class RunSettings(Options):
    """Settings of any run; None keeps the config's."""

    epochs: int | None = option("number of epochs", type=int)
    batch: int | None = option(
        "batch size per process, at most the number of videos per process", type=int
    )
    procs: int = option("number of processes, one per GPU if there are GPUs", 1, type=int)
    amp: bool = flag("use mixed precision: fp16 on a GPU, bf16 on a CPU")
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


@dataclass(frozen=True)
class Recipe(RunSettings):
    """Fine-tuning settings; None keeps the config's, whose schedule is stretched to the epochs.

    Attributes:
        method: What is trained, of ``METHODS``; or ``'auto'``.
        task: What to predict: a name, or ``MODULE:CLASS``.
    """

    method: str = "full"
    task: str = DEFAULT_NAME
    lr: float | None = option(
        "learning rate (default: the config's, scaled by the total batch size; ten times "
        "that for LoRA and adapters)",
        type=float,
    )
    lora_rank: int = option("rank of the updates of LoRA", 8, type=int)
    lora_alpha: float = option(
        "the updates of LoRA are multiplied by alpha / rank", 16.0, type=float
    )
    lora_layers: Sequence[str] | None = option(
        "last parts of the names of the linear layers that have updates (default: qkv, proj, and "
        "fc after attention over time)",
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
    balance: str | None = option(
        "balance the classes by weights of the loss, or by sampling",
        choices=("weights", "sampling"),
    )

    @property
    def is_probe(self) -> bool:
        """Whether a classifier is fit on features that are computed once."""
        from mmvidformer.tasks.table import find_task  # not for --help

        return self.method in find_task(self.task).probes


@dataclass(frozen=True)
class Pretraining(RunSettings):
    """Settings of pretraining; the defaults are VideoMAE's (Tong et al. 2022, table 8)."""

    epochs: int = option("number of epochs", 800, type=int)
    batch: int = option(
        "batch size per process, at most the number of videos per process", 32, type=int
    )
    mask_ratio: float = option("share of the places that are masked", 0.9, type=float)
    target: str = option(
        "what is learned: 'pixels' of masked places, or 'views', clips without these places, that "
        "have equal features (LeJEPA)",
        "pixels",
        choices=("pixels", "views"),
    )
    lr: float = option("learning rate for a total batch of 256", 1.5e-4, type=float)


@dataclass(frozen=True)
class RunOptions(OverrideOptions):
    """What a command that trains on your videos reads, and where it writes."""

    config: str = option(CONFIG, required=True)
    data: str = option("", required=True)
    force: bool = flag("start again in a used work dir")
    resume: bool = flag(
        "go on with the run in the work dir, with these settings, such as more --epochs"
    )
    work_dir: str | None = option("default: work_dirs/<config>_<command>", metavar="FOLDER")
    log: Sequence[str] | None = log_option()

    @property
    def trains(self) -> bool:
        """Whether the run can go on after an interruption."""
        return True

    @property
    def log_words(self) -> list[str]:
        """``--log`` of commands that this one runs."""
        return ["--log", *self.log] if self.log else []

    def _check(self) -> None:
        if self.force and self.resume:
            raise UserError("--force starts again, and --resume goes on: give one of them")


@dataclass(frozen=True)
class FinetuneOptions(RunOptions):
    """All options of ``mmvidformer finetune``.

    Attributes:
        recipe: The settings of the training, with the method and the task.
        annotations: How ``data`` is read if it is no folder of lists.
    """

    data: str = option("folder of the lists, or what mmvidformer data list reads", required=True)
    recipe: Recipe = part(Recipe)
    method: str = option(
        "what is trained: what suits the number of videos, the weights and the processor, "
        "as a line explains (auto, the default); all weights (full); low-rank updates and the "
        "head (lora); adapters with a convolution over time, and the head (adapter); the head "
        "alone, for classes on features that are computed once: a linear "
        "one (logistic regression), one on the changes between frames (temporal), for up to "
        "2,000 videos, or one with attention over the tokens (attentive); or nothing: the "
        "nearest neighbors vote, and their accuracy is printed (knn)",
        AUTO,
        choices=(AUTO, *METHODS),
    )
    task: str | None = option(
        f"what to predict: {describe_tasks()}; or MODULE:CLASS of a task of your own "
        f"(default: {DEFAULT_NAME}, or that of an export)",
        metavar=f"{{{','.join(FIELD_NAMES)}}}",
    )
    annotations: AnnotationOptions = part(AnnotationOptions)
    fold: str | None = option("train and test on one fold of data list --folds", metavar="NAME")
    folds: int | None = option(
        "train and test on each fold, and print what they reach together; of annotations that "
        "state none, N are drawn. The same command goes on after an interruption",
        nargs="?",
        type=int,
        const=0,
    )
    weights: str | None = option(
        "checkpoint or address to start from, of this project or any that mmvidformer convert "
        "reads (default: as in the config)",
        metavar="FILE",
    )
    features: Path | None = option(
        "folder of features (default: WORK_DIR/features)", type=Path, metavar="FOLDER"
    )
    shards: str | None = option("folder or address with the shards of the lists", metavar="FOLDER")
    prepare: bool = flag("write the config, do not train")

    @property
    def trains(self) -> bool:
        """Whether the run can go on after an interruption: no probe can."""
        return self.recipe.method not in PROBES

    def _check(self) -> None:
        super()._check()
        has_folds = self.fold is not None or self.folds is not None
        probes = ", ".join(PROBES)
        if self.resume and self.method in PROBES:
            raise UserError(f"--resume goes on with training, not with {probes}")
        if self.fold is not None and self.folds is not None:
            raise UserError("--fold is one of --folds: give one of them")
        if has_folds and (self.prepare or self.resume or self.shards):
            raise UserError("--fold and --folds go without --prepare, --resume and --shards")
        if self.shards and self.method in PROBES:
            raise UserError(f"{probes} read the files of the lists, not --shards")
        names = ("lora_rank", "lora_alpha", "lora_layers")
        has_lora = any(getattr(self.recipe, name) != getattr(Recipe, name) for name in names)
        if has_lora and self.method != "lora":
            raise UserError("--lora-rank, --lora-alpha and --lora-layers need --method lora")
        if self.features and self.method not in (AUTO, *PROBES):
            raise UserError(f"--features is for {probes}")

    def describe(self, *unrecorded: str) -> dict[str, str]:
        """Return the options by name as text, but some, to compare commands with each other."""
        values = {}
        for owner in (self, self.recipe, self.annotations):
            for setting in fields(owner):
                if setting.name not in ("recipe", "annotations", *unrecorded):
                    values[setting.name] = str(getattr(owner, setting.name))
        return values
