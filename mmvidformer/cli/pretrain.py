"""Pretrain on videos without labels: mmvidformer pretrain --config NAME --data FOLDER.

The model of the config learns to predict the pixels of masked positions (VideoMAE), or to tell a
clip by some of its tokens (LeJEPA, --target views). Then fine-tune it with mmvidformer finetune
--weights CHECKPOINT.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join

from mmvidformer.engine.options import option, parse_options, part
from mmvidformer.finetune.settings import Pretraining, RunOptions


@dataclass(frozen=True)
class PretrainOptions(RunOptions):
    """Videos, the settings of the training, and where it writes."""

    data: str = option("folder of videos, also in its subfolders, or a list of them", required=True)
    settings: Pretraining = part(Pretraining)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the config, train, print the commands that follow, and return the exit status."""
    options = parse_options(PretrainOptions, argv, __doc__)
    from mmvidformer.cli import train
    from mmvidformer.config import merge_overrides
    from mmvidformer.data.sources import list_video_files
    from mmvidformer.engine.checkpointing.resume import LAST, best_checkpoint
    from mmvidformer.finetune.prepare import config_path, read_config
    from mmvidformer.finetune.pretraining import apply_pretraining
    from mmvidformer.storage.files import write_file

    settings = options.settings
    path = config_path(options, "pretrain")
    base, videos = read_config(options), [Path(path) for path in list_video_files(options.data)]
    cfg, notes = apply_pretraining(base, videos, path.parent, settings)
    merge_overrides(cfg, options.cfg_options)
    cfg.work_dir = str(path.parents[1])
    write_file(path, cfg.pretty_text.encode())
    print(*notes, f"config: {path}", sep="\n", flush=True)
    if not options.resume:
        (path.parents[1] / LAST).unlink(missing_ok=True)  # of an earlier run
    several = ["--procs", str(settings.procs)] if settings.procs > 1 else []
    start = ["--resume"] if options.resume else ["--force"]  # as the work dir was checked
    status = train.main([str(path), *start, *several, *options.log_words])
    if status:
        return status
    checkpoint = best_checkpoint(path.parents[1])
    if checkpoint is None:
        return 0
    words = join(["--config", options.config, "--weights", checkpoint])
    print(f"done; fine-tune: mmvidformer finetune {words} --data LABELED")
    return 0
