"""What each subpackage may import, and that the core has no second copy."""

import ast
import re
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "mmvidformer"
FILES = sorted(p for p in PACKAGE.rglob("*.py") if ".mim" not in p.parts)

# subpackage: subpackages that it may import, besides itself
ALLOWED = {
    room: {*others.split()}
    for room, others in {
        "layers": "",
        "storage": "",
        "checkpoints": "layers storage",
        "repairs": "layers",
        "registry": "checkpoints repairs",
        "config": "checkpoints",
        "models": "checkpoints layers video",
        "video": "storage",
        "data": "checkpoints layers repairs storage video",
        "tasks": "config data registry repairs storage video",
        "engine": "checkpoints config data models registry storage video",
        "export": "layers models storage tasks",
        "apis": "checkpoints config data engine layers models storage tasks video",
        "finetune": "apis checkpoints config data engine layers registry sinks storage tasks video",
        "sinks": "data storage tasks video",
        "web": "apis checkpoints config engine sinks video",
        "cli": (
            "apis checkpoints config data engine export finetune models sinks storage tasks "
            "video web"
        ),
        "__main__": "engine",
    }.items()
}
BELOW_ALL = {"catalog", "errors", "lookup", "processor"}  # modules that import no room
PURE = {"layers": {"torch", "einops"}, "checkpoints": {"torch", "numpy"}, "models": set()}
PLUGIN = {"addresses.py", "mmengine_loader.py", "training_state.py"}  # by and for MMEngine
MM = {"mmaction", "mmengine", "mmcv"}
GENERIC = {"one", "found", "own", "given", "rest", "kind", "each"}
MOST_GENERIC = 20  # only ever lower it

# What asks a task of which kind it is; what it takes and does is asked of its methods.
FLAG = re.compile(
    r"(task|task\([^()]*\)|task_of_head\([^()]*\))\.(has_\w+|needs_\w+|finds_\w+|is_\w+|runs_\w+"
    r"|least_\w+|suffix)|not task\.probes|task\.name (==|!=|in)"
)
MOST_FLAGS = 10


def imported(path: Path, top_level_only: bool = False) -> set[str]:
    """Absolute names of the modules that a file imports."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else ast.walk(tree)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide it; write the full name"
            base = node.module or ""
            names |= {
                f"{base}.{alias.name}" if base == "mmvidformer" else base for alias in node.names
            }
    return names


def subpackage(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_subpackages_import_only_what_they_may(path: Path) -> None:
    own = subpackage(path)
    if own in BELOW_ALL:
        used = {name for name in imported(path) if "mmvidformer" in name}
        assert used <= {"mmvidformer.errors"}
        return
    if own not in ALLOWED:
        assert own == "__init__", f"give the subpackage {own!r} a row in ALLOWED"
        return
    names = imported(path)
    used = {name.split(".")[1] for name in names if name.startswith("mmvidformer.")}
    assert used - {own} - BELOW_ALL <= ALLOWED[own]
    if own in PURE and path.name not in PLUGIN:
        assert not {name.split(".")[0] for name in names} & MM
        outside = {name.split(".")[0] for name in imported(path, top_level_only=True)}
        outside -= {"mmvidformer", *__import__("sys").stdlib_module_names}
        if own == "layers":
            assert outside <= PURE[own]


def floor(room: str) -> int:
    """1 for a room that imports no other; recursion has no end if rooms import each other."""
    return 1 + max(map(floor, ALLOWED[room]), default=0)


def test_rooms_are_few_and_import_no_room_above_them() -> None:
    rooms = {subpackage(path) for path in FILES} - {"__init__", "__main__"} - BELOW_ALL
    assert rooms == ALLOWED.keys() - {"__main__"}
    assert len(rooms) <= 17
    assert max(map(floor, rooms)) <= 7


def test_modules_import_each_other_in_no_circle() -> None:
    """Imports inside of functions count, and those for types."""
    modules = {module_name(path): path for path in FILES}
    graph = {name: imported_modules(path, modules) - {name} for name, path in modules.items()}
    while leaves := {name for name, used in graph.items() if not used & graph.keys()}:
        graph = {name: used for name, used in graph.items() if name not in leaves}
    assert not graph, f"a circle is among {sorted(graph)}"


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


def imported_modules(path: Path, modules: Iterable[str]) -> set[str]:
    """Modules of the package that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {part if part in modules else node.module for part in parts}
    return names & {*modules}


@pytest.mark.parametrize("folder", ["lab", "benchmarks", "stress", "tools"])
def test_what_is_not_shipped_starts_commands_as_users_do(folder: str) -> None:
    """It imports ``cli`` nowhere, and neither ``benchmarks`` nor ``stress`` each other."""
    for path in (PACKAGE.parent / folder).rglob("*.py"):
        names = imported(path) | {f"{name}." for name in imported(path)}
        wrong = ("mmvidformer.cli", *{"benchmarks.", "stress."} - {f"{folder}."})
        assert not [name for name in names if name.startswith(wrong)], path


def test_modules_that_read_checkpoints_stand_in_one_order() -> None:
    """The docstring of the room names them, each below all that it imports."""
    room = PACKAGE / "checkpoints"
    docstring = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    order = re.findall(r"``(\w+)``", docstring.partition("\n\n")[2].replace("names.yml", ""))
    files = [path for path in room.rglob("*.py") if path != room / "__init__.py"]
    names = {path: path.relative_to(room).parts[0].removesuffix(".py") for path in files}
    assert sorted(names.values()) == sorted(name for name in order if name in names.values())
    place = {name: i for i, name in enumerate(order)}
    for path, name in names.items():
        assert "mmvidformer.checkpoints" not in imported(path), f"{name}: import from a module"
        for module in imported(path):
            if module.startswith("mmvidformer.checkpoints."):
                other = module.split(".")[2]
                assert place[other] < place[name], f"{name} imports {other}, which is below it"


@pytest.mark.parametrize(
    "needle", ["torch.load(", "safetensors.torch import load_file", "safe_open", "testzip("]
)
def test_checkpoint_files_are_opened_in_one_module(needle: str) -> None:
    homes = {str(path.relative_to(PACKAGE)) for path in FILES if needle in path.read_text()}
    assert homes <= {"checkpoints/reading.py"}


@pytest.mark.parametrize("needle", ["scandir(", "os.walk(", "make_dataset", "import SUFFIXES"])
def test_folders_are_searched_in_one_module(needle: str) -> None:
    homes = {str(path.relative_to(PACKAGE)) for path in FILES if needle in path.read_text()}
    assert homes <= {"data/folders.py"}


@pytest.mark.parametrize(
    "needle",
    ["scaled_dot_product_attention", "F.interpolate", "bernoulli", "class Mlp", ".softmax(-1)"],
)
def test_core_operations_have_one_home(needle: str) -> None:
    homes = {subpackage(path) for path in FILES if needle in path.read_text()}
    assert homes <= {"layers"}, f"{needle} stands outside the core: {homes}"


@pytest.mark.parametrize("name", ["statt", "convolutions", "layer", "classifiers"])
def test_recurrent_layers_need_neither_registry_nor_mm_stack(name: str) -> None:
    names = imported(PACKAGE / "models" / "horst" / f"{name}.py")
    assert not {name.split(".")[0] for name in names} & MM
    assert "mmvidformer.registry" not in names


def test_errors_of_values_are_those_of_users() -> None:
    """So the tools know them from bugs."""
    raised = [
        str(path.relative_to(PACKAGE)) for path in FILES if "raise ValueError" in path.read_text()
    ]
    assert raised == []


def test_bad_videos_are_named_in_one_room() -> None:
    """What a video must have is a function of ``video/facts.py``; others ask it."""
    rooms = {subpackage(path) for path in FILES if re.search(r"\bBadVideo\(", path.read_text())}
    assert rooms == {"video"}


def test_errors_are_caught_by_their_classes_and_not_by_lists() -> None:
    """A list of classes says nothing of who raises them; one is of answers of storage."""
    tuples = re.compile(r"^[A-Z_]+ = \(.*(Error|Exception)\b", re.M)
    named = [str(path.relative_to(PACKAGE)) for path in FILES if tuples.search(path.read_text())]
    assert named == ["storage/files.py"]


def test_each_core_class_is_defined_once() -> None:
    words = ("Attention", "Mlp", "DropPath", "PositionEmbedding")
    defined = [
        node.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and node.name.endswith(words)
    ]
    assert sorted(defined) == sorted(words)


def test_seconds_are_computed_in_one_place() -> None:
    """A number of frames over a rate is a time only if the rate is constant: ``FrameTimes``."""
    rate = r"(\w+\.)*(\w+\[\")?\w*fps\b"
    seconds = re.compile(rf"[*/] *{rate}|{rate}(\[?\"\])? *[*/] ")
    files = [
        str(path.relative_to(PACKAGE))
        for path in FILES
        for line in re.sub(r'"""[\s\S]*?"""|#.*', "", path.read_text()).splitlines()
        if seconds.search(line)
    ]
    # Steps of a model in a second, which are compared with a rate; a speed; MMAction2's ratio.
    assert sorted(files) == ["apis/stream.py"] * 2 + ["data/transforms/of_mmaction.py"]


def test_names_say_what_they_hold() -> None:
    """Count generic names; those that libraries ask for, as in ``kind="stable"``, count too."""
    counts: Counter[str] = Counter()
    for path in FILES:
        nested = 0  # in f-strings, whose parts are tokens from Python 3.12 on
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                name = tokenize.tok_name[token.type]
                nested += name.endswith("STRING_START") - name.endswith("STRING_END")
                if name == "NAME" and token.string in GENERIC and not nested:
                    counts[str(path.relative_to(PACKAGE))] += 1
    most = ", ".join(f"{file} ({count})" for file, count in counts.most_common(5))
    assert counts.total() <= MOST_GENERIC, f"{counts.total()} generic names, most of them in {most}"


def test_tasks_say_themselves_what_they_are() -> None:
    """Count the places outside of ``tasks`` that ask a task what kind of task it is."""
    places = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in FILES
        if path.parent.name != "tasks"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FLAG.search(line)
    ]
    assert len(places) <= MOST_FLAGS, "\n".join(places)


def test_commands_hand_on_dataclasses() -> None:
    """Below ``cli``, nothing knows argparse's ``Namespace``."""
    files = [
        str(path.relative_to(PACKAGE))
        for path in FILES
        if subpackage(path) != "cli"
        and re.search(r"from argparse import.*\bNamespace", path.read_text("utf-8"))
    ]
    assert files == []
