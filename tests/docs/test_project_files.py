"""Files for those who develop."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from mmvidformer import __version__

ROOT = Path(__file__).parents[2]


def test_pre_commit_has_the_linter_of_ci() -> None:
    pinned = re.search(r"(?m)^ruff==(\S+)$", (ROOT / "constraints" / "3.11.txt").read_text())[1]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["rev"] for hook in hooks if "ruff" in hook["repo"]] == [f"v{pinned}"]


def test_what_security_promises_names_its_tests() -> None:
    named = re.findall(r"`((?:tests|stress)/\S+\.py)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 3 and all((ROOT / path).is_file() for path in named)


def test_what_releases_run_is_pinned() -> None:
    """Actions by commit, with the version that it is; the tools that build by version."""
    actions: dict[str, set[str]] = {}
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for line in re.findall(r"(?m)uses: (.+)$", path.read_text()):
            found = re.fullmatch(r"([\w.-]+/[\w.-]+)@([0-9a-f]{40})  # v\d+\.\d+\.\d+", line)
            assert found, f"{path.name}: {line}"
            actions.setdefault(found[1], set()).add(line)
    assert len(actions) == 7 and all(len(pins) == 1 for pins in actions.values())
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    (tools,) = re.findall(r"pip install (build\S* twine\S*)", release)
    known = (ROOT / "constraints" / "3.11.txt").read_text().splitlines()
    build, twine = tools.split()
    assert build in known and re.fullmatch(r"twine==[\d.]+", twine)


@pytest.mark.parametrize("name", ["bug", "question"])
def test_issue_forms_are_whole(name: str) -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
    assert {"name", "description", "body"} <= set(form)
    assert all({"type", "attributes"} <= set(part) for part in form["body"])
    assert len({part["id"] for part in form["body"]}) == len(form["body"])


def test_citation_has_the_version_and_a_paper_of_each_family() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == __version__
    assert {"cff-version", "message", "title", "authors", "license"} <= set(cited)
    readme = (ROOT / "README.md").read_text()
    assert len(cited["references"]) == 4
    assert all(paper["url"] in readme for paper in cited["references"])


@pytest.mark.slow
def test_types_of_the_public_api(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout


def test_workflows_run_scripts_that_exist() -> None:
    """The steps of a job name scripts of the repository, and Python versions of setup.cfg."""
    lowest = re.search(r"python_requires = >=(\S+)", (ROOT / "setup.cfg").read_text())[1]
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            assert 0 < job["timeout-minutes"] <= 120
            versions = job.get("strategy", {}).get("matrix", {}).get("python", [lowest])
            assert lowest in versions or path.name == "nightly.yml"
            for step in job["steps"]:
                for script in re.findall(r"tools/\S+\.sh|\.ci/run", step.get("run", "")):
                    assert (ROOT / script).is_file()


def test_licenses_are_those_of_the_published_checkpoints() -> None:
    published = yaml.safe_load((ROOT / "mmvidformer/checkpoints/published.yml").read_text())
    licenses = [entry.get("license", "no license file") for entry in published]
    counts = Counter("name none" if x == "no license file" else x for x in licenses)
    text = " ".join((ROOT / "README.md").read_text().split())
    said = text[text.index("Licenses of the") :].split(". ")[0]
    assert f"the {len(published)} [published" in said
    assert counts.total() == len(published)
    assert all(f" {count} {name}" in said for name, count in counts.items())
