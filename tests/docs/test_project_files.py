"""Files for those who develop."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from mmvidformer import __version__
from mmvidformer.tasks.base import Task
from mmvidformer.tasks.names import FIELD_NAMES
from mmvidformer.tasks.table import TASKS

ROOT = Path(__file__).parents[2]


def test_pre_commit_has_the_linter_of_ci() -> None:
    pinned = re.search(r"(?m)^ruff==(\S+)$", (ROOT / "constraints" / "3.11.txt").read_text())[1]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["rev"] for hook in hooks if "ruff" in hook["repo"]] == [f"v{pinned}"]


def test_what_security_promises_names_its_tests() -> None:
    named = re.findall(r"`((?:tests|stress)/\S+\.py)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 3 and all((ROOT / path).is_file() for path in named)


def test_each_promise_of_the_page_and_the_server_has_a_test() -> None:
    """The tables name files or tests in ``tests/web``; without a file, any of it."""
    sources = {path.name: path.read_text() for path in (ROOT / "tests" / "web").glob("test_*.py")}
    text = (ROOT / "SECURITY.md").read_text()
    rows = re.findall(r"(?m)^\| (.+) \| (.+) \|$", text[text.index("## The web page") :])
    promises = [row for row in rows if row[0] not in ("promise", "---")]
    assert len(promises) == 20
    for promise, tests in promises:
        names = re.findall(r"`(?:(\w+\.py))?(?:::)?(\w+)?`", tests)
        assert names, promise
        for file, name in names:
            defined = sources[file] if file else "".join(sources.values())
            assert not name or f"def {name}(" in defined, f"{promise}: {file} {name}"


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


def test_agents_are_told_all_pages_and_tasks() -> None:
    """Commands of the page are tested as those of the docs (``test_code_blocks``)."""
    linked = re.findall(r"\]\(([^)]+)\)", (ROOT / "llms.txt").read_text())
    pages = [str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md")]
    assert sorted(linked) == sorted(["AGENTS.md", *pages])
    page = (ROOT / "AGENTS.md").read_text()
    assert len(page.splitlines()) <= 60
    assert re.findall(r"(?m)^\| `(\w+)` \|", page) == [*TASKS]
    named = re.findall(r"`(\w+/\w+\.md|SECURITY\.md)`", page)
    assert len(named) > 3 and all((ROOT / name).is_file() for name in named)


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_agents_are_told_the_words_of_papers(task: Task) -> None:
    names = {name.replace("-", " ") for name in FIELD_NAMES[task.name]}
    for name in ("README.md", "AGENTS.md"):
        (row,) = re.findall(rf"(?m)^\| `{task.name}` \| ([^|]+) \|", (ROOT / name).read_text())
        assert {*row.replace("-", " ").split(", ")} & names


@pytest.mark.parametrize(
    "words",
    [
        *("video classification", "action recognition", "action segmentation", "event spotting"),
        *("temporal action localization", "spatio-temporal action detection"),
        "action anticipation",
    ],
)
def test_the_words_by_which_people_search_are_said(words: str) -> None:
    for name in ("README.md", "docs/tasks.md", "llms.txt", "setup.cfg"):
        text = " ".join((ROOT / name).read_text().lower().split())
        assert words in text, name
