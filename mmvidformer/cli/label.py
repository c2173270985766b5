"""Label many videos: mmvidformer label MODEL [CHECKPOINT] INPUT --out DIR.

Writes Parquet files: a row for each video, with --window for each window; steps, segments, boxes or
values by task. Bad videos are in _failed.csv. After an interruption, run the same command again to
continue. With --ray it runs on a cluster.

Exit status: 0, or 1 if a video failed.
"""

from collections.abc import Sequence
from functools import partial

from mmvidformer.engine.bulk_options import LabelOptions
from mmvidformer.engine.options import parse_options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    options = parse_options(LabelOptions, argv, __doc__)
    from mmvidformer.apis.bulk.command import answer_all, find_bulk_model
    from mmvidformer.apis.bulk.labels import Labeler
    from mmvidformer.apis.bulk.settings import hash_text, row_settings
    from mmvidformer.data.sources import list_inputs
    from mmvidformer.sinks.parquet import ParquetTable

    inputs = list_inputs(options.input)
    cfg, checkpoint = find_bulk_model(options, inputs)
    load = partial(Labeler, cfg, checkpoint, options, inputs.names if options.boxes else ())
    answerer = load(device="cpu" if options.ray else options.device)
    settings = dict(command="label", **row_settings(options, cfg, checkpoint, inputs))
    settings["classes"] = hash_text(repr(answerer.recognizer.names))  # whatever names them
    columns, names = answerer.columns, inputs.names
    with ParquetTable(options.out, columns, settings, names, options.part) as table:
        return answer_all(load, answerer, table, inputs, options)
