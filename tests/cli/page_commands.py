"""The commands of a page, one after another, as a reader would type them."""

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from mmvidformer.engine.errors import run_tool
from tests.docs.blocks import is_shell, read_blocks, split_commands

ROOT = Path(__file__).parents[2]
SMALL = ["--epochs", "1", "--batch", "1", "--workers", "0"]


def run_page(
    page: str,
    config: str,
    main_of: Callable,
    capsys,
    before: Mapping[str, Callable[[], None]] | None = None,
) -> list[str]:
    """Run them on a tiny model, and return what each prints.

    Args:
        page: Name of the page.
        config: Config in place of that of the page.
        main_of: The fixture.
        capsys: The fixture.
        before: What the reader does before a command that has a word.
    """
    outputs = []
    blocks = [block for block in read_blocks(ROOT / "docs" / page, ROOT) if is_shell(block)]
    for words in (words for block in blocks for words in split_commands(block.text)):
        count = 3 if words[1] == "data" else 2
        names, options = words[1:count], words[count:]
        text = shlex.join(options).replace("--weights published://vivit_fe_k400", "")
        text = text.replace("vivit_fe_k400", config)
        for best in Path().glob("work_dirs/*/*epoch_1.pth"):
            text = text.replace(f"{best.parent}/best_segments_mAP_epoch_9.pth", str(best))
        options = shlex.split(text)
        options += SMALL if names == ["finetune"] else []
        options += ["--min-score", "0"] if names == ["demo"] else []
        for word, act in (before or {}).items():
            if word in options:
                act()
        main = main_of(".".join(names))
        status = run_tool(lambda main=main, options=options: main(options) or 0)
        printed = capsys.readouterr()
        assert status == 0, f"{words}: {printed.out}{printed.err}"
        outputs.append(printed.out + "".join(re.findall(r"written: .*\n", printed.err)))
    return outputs
