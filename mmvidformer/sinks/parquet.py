"""Rows of many videos in Parquet files, a file for each part."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from mmvidformer.errors import MissingPackage
from mmvidformer.storage.errors import refuse
from mmvidformer.storage.files import join, list_files, write_to
from mmvidformer.storage.parts import PART, Answer, PartTable
from mmvidformer.storage.range_file import RangeFile

NOTES = b"mmvidformer"  # key of the footer: names of the videos, and reasons of the bad ones


class ParquetTable(PartTable):
    """A folder of Parquet files, which pandas, DuckDB, Spark and Ray read as a table.

    A file is written as a whole, under a name of its videos, and its footer names them. So what is
    done is what stands in the files: a run that was killed at any moment loses the part that it had
    not written, and the next one writes no row twice. Names with ``_`` are for people; readers of
    tables leave them out. Names of videos that are not UTF-8 are spelled as by
    ``storage.names.spell``.

    Args:
        folder: The folder or address.
        columns: See ``Answerer``.
        settings: What the rows depend on.
        names: Names of all videos, for the order of the files.
        part: See ``PartTable``.

    Raises:
        FileExistsError: If the folder has rows of other settings or columns.
        ImportError: If pyarrow is missing.
        OSError: If the folder cannot be written, or storage does not answer.
    """

    def __init__(
        self,
        folder: str,
        columns: Mapping[str, type],
        settings: Mapping[str, Any],
        names: Sequence[str],
        part: int = PART,
    ) -> None:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            text = 'Parquet needs pyarrow: pip install "mmvidformer[parquet]"'
            raise MissingPackage(text) from error
        types = {
            str: pyarrow.string(),
            float: pyarrow.float64(),
            int: pyarrow.int64(),
            list: pyarrow.list_(pyarrow.float32()),
            tuple: pyarrow.list_(pyarrow.int64()),
        }
        fields = [(name, types[python_type]) for name, python_type in columns.items()]
        self.schema = pyarrow.schema(fields)
        self._numbers = {name: number for number, name in enumerate(names)}
        self._done: set[str] = set()
        self._failed: dict[str, str] = {}
        types_of_columns = {name: python_type.__name__ for name, python_type in columns.items()}
        super().__init__(folder, dict(settings, columns=types_of_columns), names, part)

    def _read(self) -> bool:
        for name in list_files(self.folder):
            if name.startswith("part-") and name.endswith(".parquet"):
                self._take(self._read_notes(join(self.folder, name)))
        return bool(self._done or self._failed)

    def missing(self, retry: bool = False) -> list[str]:
        """Return the names of the videos that have no answer; with ``retry`` also the failed ones.

        They come last, so that other parts are what they would have been.
        """
        missing = [
            name for name in self.names if name not in self._done and name not in self._failed
        ]
        return missing + [name for name in self.names if retry and name in self._failed]

    def failed(self) -> dict[str, str]:
        """Return the reason of each video that could not be read."""
        return {name: self._failed[name] for name in self.names if name in self._failed}

    def write_part(self, answers: Sequence[Answer]) -> None:
        """Write a part: all rows of its videos, in their order, or none."""
        import pyarrow
        from pyarrow import parquet

        names = [answer.name for answer in answers]
        failed = {answer.name: answer.error for answer in answers if answer.error is not None}
        notes = dict(videos=names, failed=failed)
        rows = [row for answer in answers for row in answer.rows]
        columns = []
        for field in self.schema:
            values = [row.get(field.name) for row in rows]
            columns.append(pyarrow.array(values, field.type))
        metadata = {NOTES: json.dumps(notes).encode()}  # names as they are, in ASCII
        schema = self.schema.with_metadata(metadata)
        digest = hashlib.sha256(os.fsencode("\0".join(names))).hexdigest()[:12]
        number = self._numbers[names[0]]
        target = join(self.folder, f"part-{number:09d}-{digest}.parquet")
        with write_to(target) as part:
            parquet.write_table(pyarrow.table(columns, schema), part, compression="zstd")
        self._take(notes)

    def _take(self, notes: Mapping[str, Any]) -> None:
        failed = {name: why for name, why in notes["failed"].items() if name not in self._done}
        self._done.update(name for name in notes["videos"] if name not in notes["failed"])
        self._failed |= failed
        for name in self._done & self._failed.keys():  # a later try
            del self._failed[name]

    def _read_notes(self, file: str) -> dict[str, Any]:
        from pyarrow import parquet

        with (
            RangeFile.open(file) as opened,
            refuse(f"{file} was not written by this command, or is damaged; remove it"),
        ):
            return json.loads(parquet.read_metadata(opened).metadata[NOTES])
