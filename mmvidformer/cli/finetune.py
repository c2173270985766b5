"""Fine-tune on videos of your own: mmvidformer finetune --config NAME --data DATA.

DATA is a folder of lists that mmvidformer data list wrote, or all that it reads: folders of
classes, an export of a tool, a csv file. Then the lists go to WORK_DIR/lists. The work dir gets the
complete config (finetune/config.py), with which all other tools work.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace

from mmvidformer.engine.options import parse_options
from mmvidformer.finetune.settings import FinetuneOptions
from mmvidformer.tasks.names import DEFAULT_NAME


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare and train, print the commands that follow, and return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    options = parse_options(FinetuneOptions, argv, __doc__)
    task = options.task or DEFAULT_NAME
    options = replace(options, recipe=replace(options.recipe, method=options.method, task=task))
    from mmvidformer.cli.finetuning import finetune

    finetune(options, argv)
    return 0
