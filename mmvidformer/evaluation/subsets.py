"""Subsets of EPIC-Kitchens' samples that are evaluated separately."""

from collections.abc import Sequence
from pathlib import Path

# What a subset's files list; the headers of the official files.
KINDS = ("narration_id", "participant_id", "verb", "noun")


class Subset:
    """Samples in any of the lists of some files.

    The first line of a file is ``participant_id``, ``verb`` or ``noun`` (the official
    ``EPIC_100_unseen_participant_ids_validation.csv``, ``EPIC_100_tail_verbs.csv``,
    ``EPIC_100_tail_nouns.csv``). A file without a header lists narration ids (RULSTM's
    ``validation_tail_verbs_ids.csv`` etc.).

    Args:
        files: One file, or several for their union.

    Raises:
        ValueError: If a file is empty, or lists a class that is not a number.
    """

    def __init__(self, files: str | Sequence[str]) -> None:
        self.lists: dict[str, set[str]] = {kind: set() for kind in KINDS}
        for path in [files] if isinstance(files, str) else files:
            entries = Path(path).read_text(encoding="utf-8").split()
            kind = entries.pop(0) if entries and entries[0] in KINDS else "narration_id"
            if not entries:
                raise ValueError(f"{path} lists nothing")
            wrong = [entry for entry in entries if kind in ("verb", "noun") and not entry.isdigit()]
            if wrong:
                raise ValueError(f"{path}: {kind} {wrong[0]!r} is not a number")
            self.lists[kind] |= set(entries)

    def has(self, narration_id: str, label: Sequence[int]) -> bool:
        """Whether a sample with the label (verb, noun, ...) is in the subset."""
        keys = (narration_id, narration_id.split("_")[0], str(label[0]), str(label[1]))
        return any(key in self.lists[kind] for kind, key in zip(KINDS, keys, strict=True))
