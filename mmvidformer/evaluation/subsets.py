"""Classes and samples that EPIC-Kitchens' csv files choose for evaluation."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

Classes = str | Sequence[int]


def read_classes(source: Classes, task: str) -> list[int]:
    """Read classes from a csv file with a header, such as ``EPIC_many_shot_verbs.csv``.

    Args:
        source: Path, or the classes themselves.
        task: ``'verb'`` or ``'noun'``; the column is named so, or ``verb_class``.

    Raises:
        ValueError: If the column is missing, empty, or has what is no number.
    """
    if not isinstance(source, str):
        return [int(number) for number in source]
    with open(source, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        names = [n for n in (f"{task}_class", task) if n in (rows.fieldnames or ())]
        if not names:
            raise ValueError(f"{source} has no column {task}_class or {task}: {rows.fieldnames}")
        numbers = []
        for row in rows:
            if not (row[names[0]] or "").strip().isdigit():
                raise ValueError(f"{source}, line {rows.line_num}: no {task} class in {row}")
            numbers.append(int(row[names[0]]))
    if not numbers:
        raise ValueError(f"{source} has no classes")
    return numbers


@dataclass
class Subset:
    """A choice of samples: those that fit any of its members.

    Args:
        narrations: Narration ids.
        participants: Ids of those who made the video, with which narration ids begin.
        verbs: Verb classes.
        nouns: Noun classes.
    """

    narrations: set[str] = field(default_factory=set)
    participants: set[str] = field(default_factory=set)
    verbs: set[int] = field(default_factory=set)
    nouns: set[int] = field(default_factory=set)

    def holds(self, narration_id: str, label: Sequence[int]) -> bool:
        """Whether a sample with the label (verb, noun, ...) is chosen."""
        return (
            narration_id in self.narrations
            or narration_id.split("_")[0] in self.participants
            or label[0] in self.verbs
            or label[1] in self.nouns
        )


HEADERS = {"participant_id": "participants", "verb": "verbs", "noun": "nouns"}


def read_subset(files: str | Sequence[str]) -> Subset:
    """Read which samples are in a subset, from one file or as the union of several.

    The first line tells what a file lists: ``participant_id``, ``verb`` or ``noun`` (the official
    ``EPIC_100_unseen_participant_ids_validation.csv``, ``EPIC_100_tail_verbs.csv``,
    ``EPIC_100_tail_nouns.csv``); without such a header they are narration ids (RULSTM's
    ``validation_tail_verbs_ids.csv`` and its kind).

    Raises:
        ValueError: If a file lists nothing, or what is no class.
    """
    subset = Subset()
    for path in [files] if isinstance(files, str) else files:
        lines = Path(path).read_text(encoding="utf-8").split()
        member = HEADERS.get(lines[0]) if lines else None
        entries = lines[1:] if member else lines
        if not entries:
            raise ValueError(f"{path} lists nothing")
        if member in ("verbs", "nouns"):
            entries = read_classes(path, lines[0])
        getattr(subset, member or "narrations").update(entries)
    return subset
