"""Outputs of predictions, a file each."""

from mmvidformer.sinks.base import Sink as Sink
from mmvidformer.sinks.boris import Boris as Boris
from mmvidformer.sinks.coco import Coco as Coco
from mmvidformer.sinks.cvat import Cvat as Cvat
from mmvidformer.sinks.elan import Elan as Elan
from mmvidformer.sinks.film import Film as Film
from mmvidformer.sinks.jsonl import JsonLines as JsonLines
from mmvidformer.sinks.label_studio import LabelStudio as LabelStudio
from mmvidformer.sinks.segments import SegmentsCsv as SegmentsCsv
from mmvidformer.sinks.subtitles import Subtitles as Subtitles
from mmvidformer.sinks.timeline import Timeline as Timeline
from mmvidformer.sinks.windows import WindowsCsv as WindowsCsv

# Of the command line: ``demo --NAME FILE`` writes with the class. A new output has a line here.
SINKS: dict[str, type[Sink]] = {
    "json": JsonLines,
    "csv": SegmentsCsv,
    "windows": WindowsCsv,
    "subtitles": Subtitles,
    "label_studio": LabelStudio,
    "cvat": Cvat,
    "coco": Coco,
    "boris": Boris,
    "elan": Elan,
    "timeline": Timeline,
    "out": Film,
}
