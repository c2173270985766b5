"""Draw the receptive field of a token: python -m lab plot field CONFIG --out FILE.

Follows a token through the blocks of a config's backbone, and draws the input tokens that it
depends on after each. The size of the grid does not have to be the config's.
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from lab.receptive_field import draw_receptive_field, receptive_field
from mmvidformer.config import load_config
from mmvidformer.config.building import building
from mmvidformer.engine.arguments import check_outputs
from mmvidformer.engine.model_options import ConfigOptions, ForceOptions
from mmvidformer.engine.options import add_options
from mmvidformer.registry import MODELS
from mmvidformer.sinks.figures import save_figure


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tool."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    add_options(parser, ConfigOptions)
    parser.add_argument(
        "--out", type=Path, required=True, help="picture (.png, .pdf, .svg)", metavar="FILE"
    )
    axes = dict(type=int, nargs=3, metavar=("T", "H", "W"))
    parser.add_argument("--grid", **axes, default=[4, 6, 6], help="tokens (default: 4 6 6)")
    parser.add_argument("--token", **axes, help="the token, from 0 (default: the middle)")
    parser.add_argument("--cls", action="store_true", help="follow the class token instead")
    add_options(parser, ForceOptions)
    args = parser.parse_args(argv)
    check_outputs(vars(args), [("--out", args.out)], "out")
    cfg = load_config(args.config, args.cfg_options)
    with building(cfg):
        backbone = MODELS.build(cfg.model.backbone)
    token = tuple(args.token or (n // 2 for n in args.grid))
    fields = receptive_field(backbone, tuple(args.grid), token, args.cls)
    place = "frame {}, row {}, column {}".format(*token)
    who = "the class token" if args.cls else f"the token in {place}"
    title = f"{Path(args.config).stem}\ninput tokens that {who} has seen"
    save_figure(draw_receptive_field(fields, None if args.cls else token, title), args.out)
    print(f"written: {args.out}")
