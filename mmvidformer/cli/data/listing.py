"""What is printed of new lists."""

import unicodedata
from collections.abc import Mapping, Sequence

from mmvidformer.data.list_folders import VideoLists
from mmvidformer.data.splits import SPLITS
from mmvidformer.tasks.base import Task

MOST_PRINTED = 20


def print_lists(lists_of: Mapping[str, VideoLists], task: Task) -> None:
    """Print the classes and the number of samples of lists, by fold; one without is ``''``."""
    for fold, lists in lists_of.items():
        if not fold and lists.facts["train"].sizes and task.size_unit == "videos":
            _print_classes(lists)
        elif lists is next(iter(lists_of.values())):
            dots = ", ..." if len(lists.classes) > MOST_PRINTED else ""
            print(f"{', '.join(lists.classes[:MOST_PRINTED])}{dots}")
        for name, other in find_similar(lists.classes).items():
            is_same = unicodedata.normalize("NFC", name) == unicodedata.normalize("NFC", other)
            names = [ascii(word) if is_same else repr(word) for word in (name, other)]
            print(f"warning: the class {names[0]} is spelled almost as {names[1]}")
        counts = ", ".join(f"{count} {split}" for split, count in lists.counts.items())
        print(f"fold {fold}: {counts}" if fold else f"{task.sample_unit}: {counts}")
        for split, word in (("val", "validation"), ("test", "testing")):
            if not lists.counts[split] and not fold:
                print(f"no video is for {word}")


def find_similar(classes: Sequence[str]) -> dict[str, str]:
    """Return classes that look as an earlier one does, which they name.

    Capitals, blanks, invisible letters and other spellings of a letter in Unicode do not count.
    """
    first: dict[str, str] = {}
    similar = {}
    for name in classes:
        letters = unicodedata.normalize("NFKC", name).casefold()
        seen = "".join(letter for letter in letters if unicodedata.category(letter)[0] not in "CZ")
        if (other := first.setdefault(seen, name)) != name:
            similar[name] = other
    return similar


def _print_classes(lists: VideoLists) -> None:
    """Print how many videos of each class each split has, and which classes are small."""
    counts = {}
    for number, name in enumerate(lists.classes):
        counts[name] = [int(lists.facts[split].sizes[number]) for split in SPLITS]
    width = max(map(len, [*counts, "class"]))
    print(f"{'class':{width}}  train    val   test")
    for name, row in {**counts, "all": map(sum, zip(*counts.values(), strict=True))}.items():
        print(f"{name:{width}} " + "".join(f"{count:6} " for count in row).rstrip())
    for name, (train, val, test) in counts.items():
        if not train or train + val + test < 3:
            counted = f"{train} training, {val} validation, {test} test videos"
            print(f"class {name!r} is small: {counted}")
