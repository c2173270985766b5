"""The files that take longest begin first, so that no process works alone in the end."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Those of five seconds of work or waiting and more, about the longest first.
FILES = """
    storage/test_object_storage.py registry/test_repairs.py test_border.py
    cli/test_border_of_models.py cli/test_paths_agree.py
    export/test_export.py cli/test_tools_of_mmaction2.py export/test_int8.py
    engine/test_preflight.py
    engine/test_several_processes.py cli/test_partial_checkpoints.py cli/test_train_test.py
    export/test_card.py engine/test_training_guard.py export/test_stream_graph.py
    cli/test_demo_outputs.py docs/test_notebooks.py engine/checkpointing/test_buckets.py
    cli/test_finetune.py cli/test_finetune_folds.py cli/test_hostile_videos.py
    engine/test_draws_of_ranks.py cli/test_task_streams.py cli/test_addresses.py
    cli/test_behavior.py cli/test_demo.py cli/test_configs_of_mmaction2.py
    web/test_page.py web/test_serve_command.py web/test_server.py apis/test_complexity.py
    models/fast/test_passes.py cli/test_finetune_probes.py
    cli/test_boxes.py cli/test_buckets.py cli/test_label.py docs/test_site.py test_imports.py
""".split()
RANKS = {name: rank for rank, name in enumerate(FILES)}


def longest_first(item: pytest.Item) -> int:
    """A key to sort by, which keeps the tests of a file together and in order."""
    path = item.path
    name = path.relative_to(HERE).as_posix() if path.is_relative_to(HERE) else ""
    return RANKS.get(name, len(RANKS))
