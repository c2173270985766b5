"""ELAN's .eaf: annotations on tiers, in milliseconds.

The video is the first one of the linked media that is there, else the first. The label is the text
of an annotation, or the name of its tier if it has none; ``--columns label=tier`` takes the names
of tiers, ``group=participant`` keeps a person in one split. Annotations that refer to others have
the times of those. Checked with pympi and test files of it, which ELAN wrote.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from mmvidformer.data.folders import is_video
from mmvidformer.data.importers.export import Export, reading
from mmvidformer.errors import UserError

UNITS = {"milliseconds": 1000.0, "PAL-frames": 25.0, "PAL-50-frames": 50.0, "NTSC-frames": 29.97}
Times = dict[str, tuple[float, float]]  # start and end of each annotation, by its number


def recognize(export: Export) -> bool:
    """Whether it is an annotation document."""
    return export.xml is not None and export.xml.tag == "ANNOTATION_DOCUMENT"


def read(export: Export) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the annotations of all tiers, in seconds of the video."""
    root = export.xml
    with reading(str(export.path)):
        video, offset = _find_video(export, root)
        times = _annotation_times(root)
    for tier in root.iter("TIER"):
        name = tier.get("TIER_ID", "")
        for annotation in _annotations(tier):
            number = annotation.get("ANNOTATION_ID", "")
            if number not in times:
                export.leave_out("annotation without times")
                continue
            text = (annotation.findtext("ANNOTATION_VALUE") or "").strip()
            start, end = (str(round(time + offset, 3)) for time in times[number])
            row = {"video": video, "start": start, "end": end}
            row |= {"label": " ".join(text.split()) or name, "tier": name}
            row["participant"] = tier.get("PARTICIPANT", "")
            yield row, f"{export.path}, tier {name!r}, annotation {number}"


def _find_video(export: Export, root: Element) -> tuple[str, float]:
    """Return the name of the video, and at which second of it the annotations begin."""
    media = []
    for descriptor in root.iter("MEDIA_DESCRIPTOR"):
        relative = descriptor.get("RELATIVE_MEDIA_URL") or ""  # with or without %20
        names = [relative, unquote(relative), descriptor.get("MEDIA_URL") or ""]
        mime = descriptor.get("MIME_TYPE") or ""
        if mime.startswith("video") or any(map(is_video, names)):
            media.append((names, float(descriptor.get("TIME_ORIGIN") or 0) / 1000))
        else:
            export.leave_out("sound file")
    if not media:
        raise UserError(f"{export.path} links no video; add it in ELAN: Edit, Linked Files")
    if len(media) > 1:
        export.leave_out("other linked video", len(media) - 1)
    for names, offset in media:
        for name in filter(None, names):
            if export.find(name) is not None:
                return name, offset
    names, offset = media[0]
    return next(filter(None, names), ""), offset


def _annotation_times(root: Element) -> Times:
    """Return the seconds of each annotation; of those that refer to others, the others' times."""
    header = root.find("HEADER")
    units = UNITS.get(header.get("TIME_UNITS", "") if header is not None else "", 1000.0)
    slots = _slot_times(root, units)
    times: Times = {}
    referring: dict[str, list[str]] = defaultdict(list)  # in order, by what they refer to
    for tier in root.iter("TIER"):
        for annotation in _annotations(tier):
            number = annotation.get("ANNOTATION_ID", "")
            if annotation.tag == "REF_ANNOTATION":
                referring[annotation.get("ANNOTATION_REF", "")].append(number)
                continue
            ends = [slots.get(annotation.get(f"TIME_SLOT_REF{n}", "")) for n in (1, 2)]
            if ends[0] is not None and ends[1] is not None:
                times[number] = ends[0], ends[1]
    waiting = [*times]
    while waiting:
        number = waiting.pop()
        for referring_number in referring.pop(number, ()):
            times[referring_number] = times[number]
            waiting.append(referring_number)
    return times


def _slot_times(root: Element, units: float) -> Mapping[str, float]:
    """Return the seconds of time slots.

    Those without a value divide the time between their neighbours evenly, as ELAN shows them.
    """
    times: dict[str, float] = {}
    for slot in root.iter("TIME_SLOT"):
        if slot.get("TIME_VALUE") is not None:
            times[slot.get("TIME_SLOT_ID", "")] = float(slot.get("TIME_VALUE", "")) / units
    for tier in root.iter("TIER"):
        ends = {
            annotation.get("TIME_SLOT_REF1", ""): annotation.get("TIME_SLOT_REF2", "")
            for annotation in _annotations(tier)
        }
        for first in [slot for slot in ends if slot in times]:
            between = [ends[first]]
            while between[-1] not in times and between[-1] in ends:
                between.append(ends[between[-1]])
            last = between.pop()
            if last in times:
                step = (times[last] - times[first]) / (len(between) + 1)
                for place, slot in enumerate(between, start=1):
                    times[slot] = times[first] + step * place
    return times


def _annotations(tier: Element) -> Iterator[Element]:
    for annotation in tier.iter("ANNOTATION"):
        yield from annotation
