"""The files that take longest begin first, so that no process works alone in the end."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
# Those of six seconds and more, about the longest first; those that wait stand beside others.
FILES = """
    cli/test_quickstart.py test_fake_device.py export/test_export.py test_other_systems.py
    models/test_compiled_streams.py storage/test_object_storage.py web/test_page.py
    export/test_int8.py test_border.py cli/test_paths_agree.py cli/test_tools_of_mmaction2.py
    cli/test_hostile_videos.py engine/test_training_guard.py benchmarks/test_real_videos.py
    cli/test_train_test.py cli/test_border_of_models.py apis/test_live.py test_configs.py
    cli/test_determinism.py registry/test_repairs.py cli/test_partial_checkpoints.py
    test_imports.py export/test_card.py web/test_serve_command.py engine/test_several_processes.py
    test_camera_motion.py data/test_shard_notes.py apis/test_complexity.py
    cli/test_demo_outputs.py web/test_server.py registry/test_registry.py cli/test_tasks.py
    checkpoints/test_on_load.py export/test_triton.py docs/test_notebooks.py
    finetune/test_tasks.py cli/test_finetune_folds.py test_configs_recurrent.py cli/test_label.py
    models/fast/test_passes.py cli/test_demo.py models/test_compile.py models/test_lengths.py
    docs/test_site.py cli/test_finetune.py video/test_check_files.py video/test_index.py
    apis/test_classifier.py benchmarks/test_attention_cost.py layers/test_patterns_masked.py
""".split()
RANKS = {name: rank for rank, name in enumerate(FILES)}


def longest_first(item: pytest.Item) -> int:
    """A key to sort by, which keeps the tests of a file together and in order."""
    path = item.path
    name = path.relative_to(HERE).as_posix() if path.is_relative_to(HERE) else ""
    return RANKS.get(name, len(RANKS))
