"""Config files of users."""

from pathlib import Path

import pytest

from mmvidformer.config import load_config


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.py", "model = dict(type='ViViT'\n", "SyntaxError: "),
        ("a.py", "_base_ = 'none.py'\n", "FileNotFoundError: "),
        ("a.json", "{", "JSONDecodeError: "),
    ],
)
def test_a_faulty_file_is_named_in_one_line(
    name: str, text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=r"a\.\w+ cannot be read: ") as raised:
        load_config(str(path))
    assert reason in str(raised.value) and "\n" not in str(raised.value)
