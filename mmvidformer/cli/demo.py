"""Answer for videos, cameras and addresses: mmvidformer demo MODEL [CHECKPOINT] SOURCE...

A source is a video, a folder or list of videos, a camera (its number, as 0) or an address (rtsp://,
http:// and others of FFmpeg). A web address is a checkpoint if it stands before other sources and
its path does not end like a video or a playlist (.mp4, .ts, .m3u8, ...).

Prints the most likely classes of each video, with --window those of each window, or the values that
a model of numbers predicts. A model of frames classifies each step of time, a model of segments
finds start, end and class of each segment. A recurrent model (HORST, causal transformers) answers
after each frame, with constant memory and time: the class so far, or what comes next; with --window
it is treated as others are.

Exit status: 0; 1 if a source could not be read (the others are answered); 2 if an argument is
wrong, or a source does not exist (nothing is answered).
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mmvidformer.cli.demo_options import DemoOptions, parse_options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    options = parse_options(argv, __doc__)
    with _logs_beside_answers():
        return _answer(options)


@contextmanager
def _logs_beside_answers() -> Iterator[None]:
    """Let MMEngine log to stderr, as answers are on stdout, where it logs without a run."""
    from mmengine.logging import MMLogger

    handler = MMLogger.get_current_instance().handlers[0]
    before = handler.stream
    handler.setStream(sys.stderr)
    try:
        yield
    finally:
        handler.setStream(before)


def _answer(options: DemoOptions) -> int:
    from mmvidformer.apis import Recognizer
    from mmvidformer.apis.bulk.settings import model_settings
    from mmvidformer.apis.factory import find_model_of
    from mmvidformer.cli.answering import Answering
    from mmvidformer.sinks.group import Sinks

    cfg, checkpoint = find_model_of(options)
    recognizer = Recognizer(cfg, checkpoint, options.device, options.classes, **options.inexact)
    print(recognizer, file=sys.stderr)
    options.check_model(recognizer)
    names = dict(classes=recognizer.names, int8=options.int8, static=options.static)
    settings = model_settings(cfg, checkpoint) | names | options.asked()
    targets, sink_options = options.printing_targets(), options.sink_options(settings)
    with Sinks(targets, sink_options, options.shown_ahead(recognizer)) as sinks:
        Answering(recognizer, options, sinks).answer_all()
    for sink, path in options.targets:
        if not sink.is_picture and sink.targets(path, options.sources):  # new files
            print(f"written: {path}", file=sys.stderr)
    if sinks.failed:
        print(f"{len(sinks.failed)} of {len(options.sources)} videos failed:", file=sys.stderr)
        print(*sinks.failed, sep="\n", file=sys.stderr)
    return 1 if sinks.failed else 0
