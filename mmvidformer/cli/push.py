"""Share a trained model: mmvidformer push RUN ORG/NAME, or RUN --out FOLDER.

RUN is the work dir of mmvidformer finetune or train. The repository of the HuggingFace hub gets
weights, config, classes, how videos are read, and a card with what the run measured. It is private
unless you say --public. --out writes the folder only, and uploads nothing.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmvidformer.engine.model_options import ForceOptions
from mmvidformer.engine.options import argument, flag, option, parse_options
from mmvidformer.errors import MissingFile, UserError
from mmvidformer.storage.files import read_json

if TYPE_CHECKING:
    from mmengine.config import Config

    from mmvidformer.apis.model_card import Facts


@dataclass(frozen=True)
class PushOptions(ForceOptions):
    """What is shared, where, and what the card says."""

    run: str = argument("work dir of mmvidformer finetune or train")
    repository: str | None = argument("ORG/NAME on the hub", nargs="?")
    out: Path | None = option("write this folder, and upload nothing", type=Path, metavar="FOLDER")
    license: str = option("license of the weights, as the hub writes it (apache-2.0)", "")
    trained_on: str = option("what the card calls the data", "", metavar="TEXT")
    public: bool = flag("whether everybody sees a new repository")

    def _check(self) -> None:
        if (self.repository is None) == (self.out is None):
            raise UserError("give either ORG/NAME or --out FOLDER")


def main(argv: Sequence[str] | None = None) -> int:
    """Share the model, and return the exit status."""
    options = parse_options(PushOptions, argv, __doc__)
    from huggingface_hub.utils import validate_repo_id

    from mmvidformer.apis import Recognizer
    from mmvidformer.config import load_config

    if options.repository:
        try:
            validate_repo_id(options.repository)
        except ValueError as error:
            raise UserError(f"{options.repository!r} is no ORG/NAME: {error}") from error
    config, checkpoint, result = find_run(Path(options.run))
    cfg = load_config(str(config))
    facts = read_facts(cfg, checkpoint, result, options)
    recognizer = Recognizer(cfg, checkpoint, "cpu")
    if options.out:
        recognizer.save_pretrained(options.out, facts, options.force)
        print(f"written: {options.out}")
        model = str(options.out)
    else:
        repository = str(options.repository)
        model = recognizer.push_to_hub(repository, facts, not options.public, options.force)
        print(f"uploaded: {model}")
    print(f"license: {facts.license or 'unknown; --license states it'}")
    print(f"predict: mmvidformer demo {model} VIDEO")
    return 0


def find_run(run: Path) -> tuple[Path, str, dict[str, Any]]:
    """Return the config and the checkpoint of a run, and its result.

    The result is that of ``finetune``, which may be moved; of ``train``, it is what the newest test
    of the checkpoint in the work dir wrote, with its ``file``.
    """
    from mmvidformer.engine.checkpointing.resume import best_checkpoint

    file = run / "finetune" / "result.json"
    if file.is_file():
        result = read_json(file)
        if result.get("checkpoint") is None:
            raise UserError(f"{file} names no checkpoint: the run trained no weights (knn)")
        path = run / Path(result["checkpoint"]).name
        if not path.is_file():
            raise MissingFile(f"{path} is missing, the checkpoint of the run")
        return file.with_name("config.py"), str(path), result
    config, best = max(run.glob("*.py"), key=os.path.getmtime, default=None), best_checkpoint(run)
    if config is None or best is None:
        wanted = "RUN must be a work dir of mmvidformer finetune or train"
        raise MissingFile(f"{run} has no config with a checkpoint: {wanted}")
    tests = [*run.glob("test_*.json"), *run.glob("val_*.json")]
    for test in sorted(tests, key=os.path.getmtime, reverse=True):
        content = read_json(test)
        if Path(content.get("checkpoint", "")).name == Path(best).name and "metrics" in content:
            return config, best, content | {"file": test}
    return config, best, {}


def read_facts(
    cfg: "Config", checkpoint: str, result: Mapping[str, Any], options: PushOptions
) -> "Facts":
    """Return what a run measured, and what it started from."""
    from mmvidformer.apis.model_card import Facts, Figure
    from mmvidformer.checkpoints.download import is_address
    from mmvidformer.checkpoints.published import row_of
    from mmvidformer.finetune.outcome import SPLIT_WORDS
    from mmvidformer.tasks.table import task_of

    figures = [Figure(**figure) for figure in result.get("figures", ())]
    metric = task_of(cfg).best_metric or "acc/top1"
    if metric in result.get("metrics", ()):
        test: Path = result["file"]
        split = SPLIT_WORDS[test.name.partition("_")[0]]
        date = datetime.fromtimestamp(test.stat().st_mtime).strftime("%Y-%m-%d")
        figures = [Figure(metric, result["metrics"][metric], split, date=date)]
    start = cfg.get("load_from") or cfg.model.backbone.get("init_from") or "random weights"
    start = start["source"] if isinstance(start, dict) else start
    if Path(start).name == Path(checkpoint).name:  # in the config of a test in the same work dir
        start = ""
    row = row_of(start) if is_address(start) else None
    if row and row.license:
        start = f"{start} (license: {row.license})"
    data = options.trained_on or next((figure.data for figure in figures), "")
    return Facts(options.license, start, data, figures)
