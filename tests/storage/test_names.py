import ntpath
import posixpath
from types import ModuleType, SimpleNamespace

import pytest

from mmvidformer.storage import names


@pytest.mark.parametrize(
    ("system", "sep", "folder", "path", "expected"),
    [
        (posixpath, "/", "/runs/page", "/videos/a b.mp4", "../../videos/a b.mp4"),
        (posixpath, "/", "/runs", "/runs/odd\\name.mp4", "odd\\name.mp4"),
        (ntpath, "\\", r"C:\runs\page", r"C:\videos\a.mp4", "../../videos/a.mp4"),
        (ntpath, "\\", r"C:\runs", r"D:\videos\a.mp4", "D:/videos/a.mp4"),
    ],
)
def test_a_path_from_a_folder(
    system: ModuleType, sep: str, folder: str, path: str, expected: str, monkeypatch
) -> None:
    monkeypatch.setattr(names, "os", SimpleNamespace(path=system, sep=sep))
    assert names.name_from(folder, path) == expected
