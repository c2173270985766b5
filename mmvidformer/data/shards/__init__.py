"""Videos of a list in a few tar files, with an index of their bytes, rows and frames.

A folder or an address in object storage holds the shards of a list:

- ``00000.tar`` and so on: plain tar files in WebDataset's layout. Of video 12 they have
  ``000000012.mp4`` (the file as it was), ``000000012.json`` (its path and rows), and
  ``000000012.cls`` if it has one class.
- ``index.json``: format, an ``id`` that changes with the content, task, classes and counts.
- ``samples.npy``: a row for each sample in the order of the list (``SAMPLE``).
- ``rows.jsonl``: a line for each sample: its path and what the list says of it, as JSON.
- ``frames.bin``: times and key frames of the videos (``video.packed_index``).

The last three are mapped into memory: NumPy's format needs no further package, a row is found by
its number without reading others, and processes share the pages. JSON runs no code.
"""
