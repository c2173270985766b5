"""Config files of users."""

from pathlib import Path

import pytest

from mmvidformer.config import frame_size, load_config


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


@pytest.mark.parametrize(
    ("steps", "size"),
    [
        ([dict(type="CenterCrop", crop_size=32), dict(type="FormatShape")], (32, 32)),
        ([dict(type="Resize", scale=(64, 32), keep_ratio=False)], (32, 64)),
        ([dict(type="Resize", scale=(-1, 32))], None),
        ([dict(type="FormatShape")], None),
    ],
)
def test_size_of_the_frames_of_a_pipeline(steps: list[dict], size: tuple | None) -> None:
    assert frame_size(steps) == size
