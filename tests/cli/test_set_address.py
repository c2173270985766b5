"""The script that enters the public address, on a copy of the files."""

import configparser
import re
import shutil
from pathlib import Path

import pytest
import yaml

from mmvidformer.errors import UserError

ROOT = Path(__file__).parents[2]
URL = "https://github.com/some-one/mmvidformer"


@pytest.fixture
def tool(load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The script, which changes copies in a folder of its own."""
    tool = load("set_address")
    if tool.PLACES["setup.cfg"][0] not in (ROOT / "setup.cfg").read_text():
        pytest.skip("the address is entered")
    for name in (*tool.PLACES, "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    return tool


def test_the_address_is_entered_everywhere(tool, tmp_path: Path) -> None:
    tool.main([URL])
    setup = configparser.ConfigParser()
    setup.read(tmp_path / "setup.cfg")
    assert setup["metadata"]["url"] == URL
    assert setup["metadata"]["project_urls"].strip() == f"Issues = {URL}/issues"
    site = (tmp_path / "mkdocs.yml").read_text()
    for line in (f"repo_url: {URL}", "site_url: https://some-one.github.io/mmvidformer/"):
        assert re.search(f"(?m)^{re.escape(line)}$", site)
    assert yaml.safe_load((tmp_path / "CITATION.cff").read_text())["repository-code"] == URL
    for name in tool.PLACES:
        text = (tmp_path / name).read_text()
        assert "set_address" not in text and "no public address" not in text
    security = " ".join((tmp_path / "SECURITY.md").read_text().split())
    assert (
        f'Use "Report a vulnerability" on the [Security page]({URL}/security), not an' in security
    )
    assert f'@ git+{URL}"`.' in (tmp_path / "docs" / "install.md").read_text()


def test_links_of_the_readme_are_absolute(tool, tmp_path: Path) -> None:
    relative = r"\]\((?!https?://|#)([^)]+)\)"
    before = re.findall(relative, (ROOT / "README.md").read_text())
    tool.main([URL])
    after = (tmp_path / "README.md").read_text()
    assert len(before) > 20 and re.findall(relative, after) == []
    assert f"]({URL}/raw/main/docs/images/core.svg)" in after
    assert f"]({URL}/blob/main/docs/install.md)" in after
    assert "](https://arxiv.org/abs/2103.15691)" in after


def test_places_within_pages_and_pictures_in_links(load) -> None:
    text = "[a](docs/a.md#b) [![c](x.png)](docs/c.md) [d](#e) [f](http://g.h/i)"
    assert load("set_address").absolute_links(text, "U") == (
        "[a](U/blob/main/docs/a.md#b) [![c](U/raw/main/x.png)](U/blob/main/docs/c.md) "
        "[d](#e) [f](http://g.h/i)"
    )


@pytest.mark.parametrize("url", ["github.com/a/b", "https://github.com/a", "https://host/a/b"])
def test_other_addresses_are_refused(tool, tmp_path: Path, url: str) -> None:
    with pytest.raises(UserError, match="must be https://github.com/OWNER/NAME"):
        tool.main([url])
    assert (tmp_path / "README.md").read_text() == (ROOT / "README.md").read_text()


def test_an_entered_address_is_not_changed(tool, tmp_path: Path) -> None:
    tool.main([URL])
    entered = {name: (tmp_path / name).read_text() for name in tool.PLACES}
    with pytest.raises(UserError, match="setup.cfg has an address already"):
        tool.main(["https://github.com/other/name"])
    assert entered == {name: (tmp_path / name).read_text() for name in tool.PLACES}
