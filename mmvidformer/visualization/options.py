"""Options of ``mmvidformer demo`` that a model has no use for."""

from argparse import Namespace

from mmvidformer.apis import Recognizer
from mmvidformer.apis.persons import PERSONS, choose_rate
from mmvidformer.errors import UserError
from mmvidformer.visualization.horst import watch_states


def check_options(
    args: Namespace, recognizer: Recognizer, frame_by_frame: bool, may_interrupt: bool
) -> None:
    """Raise a ``UserError`` for an option that has no effect, or one that is missing.

    Args:
        args: The options.
        recognizer: The model.
        frame_by_frame: Whether it answers after each frame.
        may_interrupt: Whether a source ends by Ctrl-C or ``--seconds``.
    """
    task = recognizer.task
    if task.needs_boxes and not args.boxes:
        what = "a csv file in AVA's format, or persons"
        raise UserError(f"a model of boxes needs --boxes: {what}")
    has_windows = task.has_windows and not frame_by_frame
    names_times = frame_by_frame and recognizer.frame_runner.times_ahead != [None]
    finds_persons = task.needs_boxes and str(args.boxes) == PERSONS
    recurrent = "recurrent models without windows"
    users = {
        "boxes": (task.needs_boxes, f"models of boxes, not of {task.part}"),
        "timeline": (not task.needs_boxes, "models without boxes"),
        "rate": (finds_persons, "models of boxes, with --boxes persons"),
        "track": (finds_persons, "models of boxes, with --boxes persons"),
        "cuts": (has_windows or args.track, "windows or --track"),
        "restart": (frame_by_frame, recurrent),
        "overlay": (frame_by_frame, recurrent),
        "ahead": (names_times, "models that anticipate at several times"),
        "seconds": (may_interrupt, f"cameras, addresses, and {recurrent}"),
    }
    for name, (is_used, user) in users.items():
        if getattr(args, name) not in (None, False) and not is_used:
            raise UserError(f"--{name} is for {user}")
    if finds_persons:
        choose_rate(args.rate, args.track)
    if args.overlay:
        with watch_states(getattr(recognizer.model, "neck", None), args.layer):
            pass  # an error if there is no such layer
