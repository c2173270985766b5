"""Share a fine-tuned model: mmvidformer push RUN ORG/NAME, or RUN --out FOLDER.

RUN is the work dir of mmvidformer finetune. The repository of the HuggingFace hub gets weights,
config, classes, how videos are read, and a card with what the run measured. It is private unless
you say --public. --out writes the folder only, and uploads nothing.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mmvidformer.engine.model_options import ForceOptions
from mmvidformer.engine.options import argument, flag, option, parse_options
from mmvidformer.errors import MissingFile, UserError

if TYPE_CHECKING:
    from mmengine.config import Config

    from mmvidformer.apis.model_card import Facts


@dataclass(frozen=True)
class PushOptions(ForceOptions):
    """What is shared, where, and what the card says."""

    run: str = argument("work dir of mmvidformer finetune")
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
    folder = Path(options.run, "finetune")
    config, checkpoint = folder / "config.py", find_checkpoint(folder)
    cfg = load_config(str(config))
    facts = read_facts(cfg, folder, options)
    recognizer = Recognizer(cfg, str(checkpoint), "cpu")
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


def find_checkpoint(folder: Path) -> Path:
    """Find the checkpoint of a run by its ``result.json``, also if the run was moved."""
    file = folder / "result.json"
    if not file.is_file():
        raise MissingFile(f"{file} is missing: RUN must be a work dir of mmvidformer finetune")
    checkpoint = json.loads(file.read_text("utf-8")).get("checkpoint")
    if checkpoint is None:
        raise UserError(f"{file} names no checkpoint: the run trained no weights (knn), or ended")
    path = folder.parent / Path(checkpoint).name
    if not path.is_file():
        raise MissingFile(f"{path} is missing, the checkpoint of the run")
    return path


def read_facts(cfg: "Config", folder: Path, options: PushOptions) -> "Facts":
    """Read what a run measured, and what it started from."""
    from mmvidformer.apis.model_card import Facts, Figure
    from mmvidformer.checkpoints.download import is_address
    from mmvidformer.checkpoints.published import row_of

    result = json.loads((folder / "result.json").read_text("utf-8"))
    figures = [Figure(**figure) for figure in result.get("figures", ())]
    start = cfg.get("load_from") or cfg.model.backbone.get("init_from") or "random weights"
    start = start["source"] if isinstance(start, dict) else start
    row = row_of(start) if is_address(start) else None
    if row and row.license:
        start = f"{start} (license: {row.license})"
    data = options.trained_on or next((figure.data for figure in figures), "")
    return Facts(options.license, start, data, figures)
