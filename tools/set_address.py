"""Enter the public address of this project: python tools/set_address.py https://github.com/OWNER/NAME.

Writes it where the package, the pages, the citation and the security policy need it, and makes the
links of README absolute, since an index of packages does not resolve relative ones. Needs a clone
of the repository on GitHub; an address that was entered is not changed.
"""

import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from mmvidformer.engine.errors import run_tool
from mmvidformer.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
PICTURES = (".gif", ".png", ".svg")

PLACES = {  # file: the text until there is an address, and with {url}
    "setup.cfg": (
        "# url and project_urls are not known yet: python tools/set_address.py\n",
        "url = {url}\nproject_urls =\n    Issues = {url}/issues\n",
    ),
    "mkdocs.yml": (
        "# site_url, repo_url and edit_uri are not known yet: python tools/set_address.py\n",
        "site_url: https://{owner}.github.io/{name}/\nrepo_url: {url}\nedit_uri: edit/main/docs/\n",
    ),
    "CITATION.cff": (
        "license: Apache-2.0\nreferences:\n",
        "license: Apache-2.0\nrepository-code: {url}\nreferences:\n",
    ),
    "SECURITY.md": (
        "The project has no public address yet. Once it has one, use "
        '"Report a vulnerability" on the repository\'s Security page,\n',
        'Use "Report a vulnerability" on the [Security page]({url}/security),\n',
    ),
    "docs/install.md": ('git+URL"`, with the URL of your copy.', 'git+{url}"`.'),
}


def absolute_links(text: str, url: str) -> str:
    """Make relative links of a page at the root absolute: pictures to their bytes, others to pages.

    Args:
        text: Markdown.
        url: Address of the repository.
    """

    def replaced(match: re.Match) -> str:
        kind = "raw" if match[1].endswith(PICTURES) else "blob"
        return f"]({url}/{kind}/main/{match[1]})"

    return re.sub(r"\]\((?!https?://|#)([^)]+)\)", replaced, text)


def main(argv: Sequence[str] | None = None) -> None:
    """Change the files."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("url", help="https://github.com/OWNER/NAME")
    url = parser.parse_args(argv).url
    parts = re.fullmatch(r"https://github\.com/([\w-]+)/([\w.-]+)", url)
    if not parts:
        raise UserError(f"the address is {url!r}, must be https://github.com/OWNER/NAME")
    changed = {}
    for name, (old, new) in PLACES.items():
        text = (ROOT / name).read_text()
        if old not in text:
            raise UserError(f"{name} has an address already, or no longer says {old.strip()!r}")
        changed[name] = text.replace(old, new.format(url=url, owner=parts[1], name=parts[2]), 1)
    changed["README.md"] = absolute_links((ROOT / "README.md").read_text(), url)
    for name, text in changed.items():
        (ROOT / name).write_text(text)
        print(name)


if __name__ == "__main__":
    sys.exit(run_tool(main))
