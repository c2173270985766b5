"""Private names of other projects: where each is used, and what breaks without it."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# module, name: the rooms (or the files of benchmarks) that import it, and what it needs it for
IMPORTED = {
    ("torch._utils", "ExceptionWrapper"): ("video", "errors of processes, with their traceback"),
    ("torch._subclasses.fake_tensor", "FakeTensorMode"): ("memory.py", "the memory estimate"),
    ("torch.utils._python_dispatch", "TorchDispatchMode"): (
        "memory.py once.py passes.py",
        "the memory estimate, the count of operators, and what is computed once",
    ),
    ("torch.utils._pytree", "tree_leaves"): (
        "layers steps.py",
        "shapes of states of streams, and finding scores among the outputs of a head",
    ),
    ("torch.utils._pytree", "tree_map"): (
        "layers models",
        "states of streams, and testing many views in parts",
    ),
    ("torch.utils._pytree", "tree_map_only"): ("layers memory.py", "scores in float32"),
    ("torch.utils.data", "_utils"): ("repairs", "the time after which workers are looked at"),
    ("torch.utils.data.dataloader", "_MultiProcessingDataLoaderIter"): (
        "repairs",
        "killed workers that are told before the timeout",
    ),
}
FUNCTORCH = "torch._functorch.autograd_function.CustomFunctionHigherOrderOperator"
# class, attribute: the file that uses it, and what it needs it for
ATTRIBUTES = {
    ("mmengine.registry.Registry", "_locations"): (
        "repairs/__init__.py",
        "repairing heads when MMAction2 imports them",
    ),
    ("mmengine.registry.Registry", "_imported"): (
        "repairs/__init__.py",
        "repairing heads when MMAction2 has imported them",
    ),
    **{
        ("mmengine.config.Config", name): ("config/idle.py", "variables that change nothing")
        for name in ("_get_base_files", "_get_cfg_path")
    },
    ("mmengine.hooks.CheckpointHook", "_save_best_checkpoint"): (
        "engine/checkpointing/hook.py",
        "keeping the best checkpoint until the next is written",
    ),
    ("mmengine.hooks.CheckpointHook", "_save_checkpoint_with_step"): (
        "engine/checkpointing/hook.py",
        "keeping outdated checkpoints until the next is written",
    ),
    ("mmengine.runner.Runner", "_resume"): (
        "engine/checkpointing/hook.py",
        "resuming in the middle of an epoch",
    ),
    **{
        ("mmengine.runner.Runner", name): (
            "engine/bad_videos.py",
            "datasets and metrics with a policy that the saved config does not have",
        )
        for name in (
            *("_train_dataloader", "_val_dataloader", "_test_dataloader"),
            *("_val_evaluator", "_test_evaluator"),
        )
    },
    ("mmengine.runner.Runner", "_init_model_weights"): (
        "engine/fsdp.py",
        "initializing weights before they are sharded",
    ),
    **{
        ("mmengine.runner.Runner", name): ("sinks/tracking.py", "the metric that draws errors")
        for name in ("_val_loop", "_test_loop")
    },
    ("mmengine.visualization.Visualizer", "_vis_backends"): (
        "sinks/tracking.py",
        "trackers that the saved config does not have",
    ),
    ("mmengine.runner.EpochBasedTrainLoop", "_epoch"): (
        "engine/checkpointing/loop.py",
        "resuming in the middle of an epoch",
    ),
    ("mmengine.runner.EpochBasedTrainLoop", "_iter"): (
        "engine/checkpointing/loop.py",
        "resuming in the middle of an epoch",
    ),
    ("torch._dynamo.output_graph.OutputGraph", "_current_level"): (
        "layers/eager.py",
        "forward mode with layers that have a backward pass of their own",
    ),
    (FUNCTORCH, "_are_functorch_transforms_active"): (
        "layers/eager.py",
        "torch.func with layers that have a backward pass of their own",
    ),
}


def private_imports() -> dict[tuple[str, str], list[str]]:
    """Files by the private names that they import from other projects."""
    found: dict = {}
    for folder in ("mmvidformer", "tools", "benchmarks", "stress"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if ".mim" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    names = [(alias.name, "") for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [(node.module or "", alias.name) for alias in node.names]
                else:
                    continue
                for module, name in names:
                    parts = [*module.split("."), name]
                    private = any(re.match("_[^_]", part) for part in parts)
                    if private and parts[0] != "mmvidformer":
                        place = str(path.relative_to(ROOT / folder))
                        found.setdefault((module, name), []).append(place)
    return found


def test_private_names_are_imported_in_one_place() -> None:
    found = private_imports()
    assert found.keys() == IMPORTED.keys()
    for key, paths in found.items():
        assert " ".join(sorted(path.split("/")[0] for path in paths)) == IMPORTED[key][0], key


@pytest.mark.parametrize("module, name", IMPORTED)
def test_private_modules_are_there(module: str, name: str) -> None:
    room, purpose = IMPORTED[module, name]
    there = hasattr(importlib.import_module(module), name)
    assert there, f"{module}.{name} is gone; mmvidformer/{room} needs it for {purpose}"


@pytest.mark.parametrize("owner, attribute", ATTRIBUTES)
def test_private_attributes_are_there(owner: str, attribute: str) -> None:
    path, purpose = ATTRIBUTES[owner, attribute]
    module, _, name = owner.rpartition(".")
    source = inspect.getsource(getattr(importlib.import_module(module), name))
    there = re.search(rf"\.{attribute}\b", source)
    assert there, f"{owner}.{attribute} is gone; mmvidformer/{path} needs it for {purpose}"
    assert attribute in (ROOT / "mmvidformer" / path).read_text(), "remove this row"
