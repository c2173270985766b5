"""ELAN and BORIS: files after the structure of those that the tools wrote.

ELAN: t.eaf (commit 9100901) and test/sample_3.0.eaf of dopefishh/pympi. BORIS: test.boris,
test_export_aggregated_events_test_full_1.tsv and test_export_events_tabular.tsv in tests/files of
olivierfriard/BORIS, commit 73bdf077. Times of the originals are read as pympi reads them, and as
BORIS exports them; here are short files of our own, as they are GPL or of a corpus.
"""

import json
from pathlib import Path

import pytest

from mmvidformer.data.importers import open_annotations
from mmvidformer.errors import UserError
from mmvidformer.tasks.imports import guess_task, select_rows
from mmvidformer.tasks.table import find_task
from tests.data.exports import damage, paths_in
from tests.data.test_importers import rows_of

ELAN = """<?xml version="1.0" encoding="UTF-8"?>
<ANNOTATION_DOCUMENT AUTHOR="" DATE="2009-03-25T11:12:35+01:00" FORMAT="2.6" VERSION="2.6"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
    <HEADER MEDIA_FILE="" TIME_UNITS="milliseconds">
        <MEDIA_DESCRIPTOR MEDIA_URL="file:///H:/nest/nest%201.wav" MIME_TYPE="audio/x-wav"/>
        <MEDIA_DESCRIPTOR MEDIA_URL="file:///H:/nest/gone.mpg" MIME_TYPE="video/mpeg"
            RELATIVE_MEDIA_URL="file:/./gone.mpg"/>
        <MEDIA_DESCRIPTOR MEDIA_URL="file:///H:/nest/nest%201.mpg" MIME_TYPE="video/mpeg"
            RELATIVE_MEDIA_URL="../film/nest%201.mpg" TIME_ORIGIN="500"/>
    </HEADER>
    <TIME_ORDER>
        <TIME_SLOT TIME_SLOT_ID="ts1" TIME_VALUE="3134"/>
        <TIME_SLOT TIME_SLOT_ID="ts2"/>
        <TIME_SLOT TIME_SLOT_ID="ts3"/>
        <TIME_SLOT TIME_SLOT_ID="ts4" TIME_VALUE="3734"/>
        <TIME_SLOT TIME_SLOT_ID="ts5"/>
    </TIME_ORDER>
    <TIER LINGUISTIC_TYPE_REF="gloss" PARTICIPANT="S034" TIER_ID="Feeding">
        <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a1"
            TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts4"><ANNOTATION_VALUE></ANNOTATION_VALUE>
        </ALIGNABLE_ANNOTATION></ANNOTATION>
        <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a9"
            TIME_SLOT_REF1="ts4" TIME_SLOT_REF2="ts5"><ANNOTATION_VALUE>x</ANNOTATION_VALUE>
        </ALIGNABLE_ANNOTATION></ANNOTATION>
    </TIER>
    <TIER LINGUISTIC_TYPE_REF="parts" PARENT_REF="Feeding" TIER_ID="parts">
        <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a2"
            TIME_SLOT_REF1="ts1" TIME_SLOT_REF2="ts2"><ANNOTATION_VALUE>reach</ANNOTATION_VALUE>
        </ALIGNABLE_ANNOTATION></ANNOTATION>
        <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a3"
            TIME_SLOT_REF1="ts2" TIME_SLOT_REF2="ts3"><ANNOTATION_VALUE>pick</ANNOTATION_VALUE>
        </ALIGNABLE_ANNOTATION></ANNOTATION>
        <ANNOTATION><ALIGNABLE_ANNOTATION ANNOTATION_ID="a4"
            TIME_SLOT_REF1="ts3" TIME_SLOT_REF2="ts4"><ANNOTATION_VALUE>give
 it</ANNOTATION_VALUE></ALIGNABLE_ANNOTATION></ANNOTATION>
    </TIER>
    <TIER LINGUISTIC_TYPE_REF="about" PARENT_REF="parts" TIER_ID="prey">
        <ANNOTATION><REF_ANNOTATION ANNOTATION_ID="a5" ANNOTATION_REF="a4">
            <ANNOTATION_VALUE>Käfer</ANNOTATION_VALUE></REF_ANNOTATION></ANNOTATION>
    </TIER>
</ANNOTATION_DOCUMENT>
"""


def test_elan(tmp_path: Path) -> None:
    (tmp_path / "a.eaf").write_text(ELAN)
    (tmp_path / "nest 1.mpg").touch()
    table = open_annotations(tmp_path / "a.eaf")
    assert table.importer == "elan" and guess_task(table).name == "segments"
    assert rows_of(table, "start", "end", "label", "tier", "participant") == [
        ("nest 1.mpg", "3.634", "4.234", "Feeding", "Feeding", "S034"),
        ("nest 1.mpg", "3.634", "3.834", "reach", "parts", ""),
        ("nest 1.mpg", "3.834", "4.034", "pick", "parts", ""),
        ("nest 1.mpg", "4.034", "4.234", "give it", "parts", ""),
        ("nest 1.mpg", "4.034", "4.234", "Käfer", "prey", ""),
    ]
    assert table.left_out == {
        "sound file": 1,
        "other linked video": 1,
        "annotation without times": 1,
    }
    by_tier = open_annotations(tmp_path / "a.eaf", columns={"label": "tier"})
    assert [row[1] for row in rows_of(by_tier, "label")] == ["Feeding", *["parts"] * 3, "prey"]


def test_elan_without_a_video(tmp_path: Path) -> None:
    (tmp_path / "a.eaf").write_text(ELAN.replace("video/mpeg", "text").replace(".mpg", ".xml"))
    with pytest.raises(ValueError, match=r"a\.eaf links no video; add it in ELAN"):
        open_annotations(tmp_path / "a.eaf")
    (tmp_path / "a.eaf").write_text(ELAN)
    with pytest.raises(ValueError, match=r"none of the 1 videos of .*a\.eaf"):
        open_annotations(tmp_path / "a.eaf")


BEHAVIORS = {
    "0": {"type": "State event", "key": "s", "code": "Füttern"},
    "1": {"type": "Point event", "key": "p", "code": "ruft"},
}
EVENTS = [
    [1.8, "", "Füttern", "", ""],
    [2.0, "ann", "Füttern", "", ""],
    [3.5, "", "Füttern", "", "a stop"],
    [7.9, "", "ruft", "laut", "", 237],
    [8.5, "ann", "Füttern", "", ""],
    [9.0, "", "Füttern", "", ""],
    [9.5, "", "hüpft", "", ""],
]
MEDIA = {"length": {"/old/a.mp4": 7.0006, "/old/b.mp4": 20.0}, "offset": {"1": 0.0}}
OBSERVATION = {"type": "MEDIA", "file": {"1": ["/old/a.mp4", "/old/b.mp4"], "2": ["c.mp4"]}}
OBSERVATION |= {"time offset": 0.0, "events": EVENTS, "media_info": MEDIA, "description": ""}
PROJECT = {
    "time_format": "hh:mm:ss",
    "project_name": "nest",
    "project_format_version": "7.0",
    "behaviors_conf": BEHAVIORS,
    "subjects_conf": {"0": {"key": "1", "name": "ann", "description": ""}},
    "observations": {
        "day 1": OBSERVATION,
        "at the nest": {**OBSERVATION, "type": "LIVE", "file": {}},
        "later": {**OBSERVATION, "events": []},
    },
}


@pytest.fixture
def nest(tmp_path: Path) -> Path:
    """A folder with the videos."""
    for name in ("a.mp4", "b.mp4", "c.mp4"):
        (tmp_path / name).touch()
    return tmp_path


def use_video(path: Path, tiny_videos) -> None:
    """Put a video of 2 s in the place of an empty file."""
    path.unlink()
    path.symlink_to(tiny_videos.root / "val_0.mp4")


@pytest.mark.parametrize("offset", [0.0, 3600.0])
def test_a_project_of_boris(nest: Path, offset: float) -> None:
    """Events go on in the next file of a player, whose begin BORIS rounds down to milliseconds."""
    events = [[event[0] + offset, *event[1:]] for event in EVENTS]
    observation = {**OBSERVATION, "events": events, "time offset": offset}
    observations = {**PROJECT["observations"], "day 1": observation}
    (nest / "a.boris").write_text(json.dumps({**PROJECT, "observations": observations}))
    table = open_annotations(nest / "a.boris")
    assert table.importer == "boris"
    columns = ("start", "end", "time", "label", "subject", "modifiers")
    assert rows_of(table, *columns) == [
        ("a.mp4", "1.8", "3.5", "", "Füttern", "", ""),
        ("b.mp4", "", "", "0.9", "ruft", "", "laut"),
        ("a.mp4", "2.0", "7.0", "", "Füttern", "ann", ""),
        ("b.mp4", "0.0", "1.5", "", "Füttern", "ann", ""),
    ]
    assert table.left_out == {
        "video of other players": 2,
        "state without an end": 1,
        "event of a behavior that is not in the ethogram": 1,
        "live observation": 1,
        "observation without events": 1,
    }
    moments = select_rows(table, find_task("moments").nouns)
    assert len(moments.rows) == 1 and moments.left_out["segment"] == 3


def test_the_files_of_a_project_that_are_longer_than_it_knows(nest: Path, tiny_videos) -> None:
    """Without lengths they are those of the videos: 2 s of the first."""
    use_video(nest / "a.mp4", tiny_videos)
    observation = {**OBSERVATION, "media_info": {}, "events": [[2.5, "", "ruft", "", ""]]}
    (nest / "a.boris").write_text(json.dumps({**PROJECT, "observations": {"x": observation}}))
    assert rows_of(open_annotations(nest / "a.boris"), "time") == [("b.mp4", "0.5")]
    (nest / "a.mp4").unlink()
    with pytest.raises(ValueError, match="no annotations of videos; left out: 1 video of other pl"):
        open_annotations(nest / "a.boris")


@pytest.mark.parametrize("part", [None, "x", [], {}, -1])
def test_a_damaged_project_is_a_line(nest: Path, part: object) -> None:
    """Whatever part of it is another one."""
    refused = 0
    for path in paths_in(PROJECT):
        (nest / "a.boris").write_text(json.dumps(damage(PROJECT, path, part)))
        try:
            open_annotations(nest / "a.boris")
        except UserError as error:
            assert "a.boris" in str(error)
            refused += 1
    assert refused


FACTS = "day 1,2026-05-01 10:00:00,,Media file,{source},0.0,27.0,{lengths},25,sun,"
TWO_FILES = FACTS.format(
    source="player #1:/old/a.mp4;/old/b.mp4|player #2:c.mp4", lengths="7.001;20.000|9.000"
)
ONE_FILE = FACTS.format(source="player #1:/old/a.mp4", lengths="7.001")
AGGREGATED = f"""\
Observation id,Observation date,Description,Observation type,Source,Time offset (s),\
Coding duration,Media duration (s),FPS (frame/s),weather,Subject,Behavior,Modifier #1,\
Behavior type,Start (s),Stop (s),Duration (s),Media file name,Comment start
{TWO_FILES}No focal subject,Füttern,,STATE,1.800,3.500,1.700,/old/a.mp4,
{TWO_FILES}ann,Füttern,,STATE,2.001,8.501,6.500,/old/a.mp4,
{TWO_FILES}No focal subject,ruft,laut,POINT,7.901,7.901,NA,/old/b.mp4,
{ONE_FILE}ann,Füttern,,STATE,4.000,NA,NA,/old/a.mp4,
"""
TABULAR = """\
Observation id|day 1|||||||
||||||||
Media file(s)||||||||
Player #1|/old/a.mp4|||||||
Time offset (s)|0.0|||||||
independent variables||||||||
variable|value|||||||
a|12|||||||
Time|Media file path|Total length|FPS|Subject|Behavior|Behavioral category|Comment|Status
0.800|/old/a.mp4|2.000|25.0|No focal subject|Füttern|||START
1.001|/old/a.mp4|2.000|25.0|ann|Füttern|||START
1.500|/old/a.mp4|2.000|25.0|No focal subject|Füttern|||STOP
1.600|/old/a.mp4|2.000|25.0|ann|ruft|||POINT
1.701|/old/a.mp4|2.000|25.0|ann|Füttern|||STOP
1.900|/old/a.mp4|2.000|25.0|ann|Füttern|||START
""".replace("|", "\t")
NEW_TABULAR = """\
Observation id;Source;Media duration (s);Subject;Behavior;Modifier #1;Behavior type;Time
day 1;player #1:/old/a.mp4;7,000;ann;Füttern;m;START;2,001
day 1;player #1:/old/a.mp4;7,000;ann;Füttern;n;START;2,500
day 1;player #1:/old/a.mp4;7,000;ann;Füttern;m;STOP;5,001
"""
COLUMNS = ("start", "end", "time", "label", "subject", "modifiers")


@pytest.mark.parametrize("separator", [",", "\t"])
def test_aggregated_events_of_boris(nest: Path, separator: str) -> None:
    """Times are those of the observation; the lengths of its files stand beside them."""
    (nest / "a.csv").write_text(AGGREGATED.replace(",", separator))
    table = open_annotations(nest / "a.csv")
    assert table.importer == "boris-events" and table.left_out == {"state without an end": 1}
    assert rows_of(table, *COLUMNS) == [
        ("a.mp4", "1.8", "3.5", "", "Füttern", "", ""),
        ("a.mp4", "2.001", "7.001", "", "Füttern", "ann", ""),
        ("b.mp4", "0.0", "1.5", "", "Füttern", "ann", ""),
        ("b.mp4", "", "", "0.9", "ruft", "", "laut"),
    ]


def test_tabular_events_of_boris(nest: Path, tiny_videos) -> None:
    use_video(nest / "a.mp4", tiny_videos)
    (nest / "a.tsv").write_text(TABULAR)
    table = open_annotations(nest / "a.tsv")
    assert table.left_out == {"state without an end": 1}
    assert sorted(rows_of(table, *COLUMNS[:5])) == [
        ("a.mp4", "", "", "1.6", "ruft", "ann"),
        ("a.mp4", "0.8", "1.5", "", "Füttern", ""),
        ("a.mp4", "1.001", "1.701", "", "Füttern", "ann"),
    ]
    (nest / "a.csv").write_text(NEW_TABULAR)
    rows = rows_of(open_annotations(nest / "a.csv"), *COLUMNS)
    assert rows == [("a.mp4", "2.001", "5.001", "", "Füttern", "ann", "m")]


def test_an_event_in_a_file_that_is_not_the_first(nest: Path, tiny_videos) -> None:
    """Older exports tell the length of all files together, and the time since the first one."""
    use_video(nest / "a.mp4", tiny_videos)
    (nest / "a.tsv").write_text(TABULAR.replace("2.000", "7.000"))
    with pytest.raises(ValueError, match=r"left out: .*3 events in one of several files \(import"):
        open_annotations(nest / "a.tsv")
