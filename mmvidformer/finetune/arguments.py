"""What the commands that train on your videos have in common."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import fields
from inspect import getdoc
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch
from mmengine.config import Config

from mmvidformer.checkpoints.fetch import is_address
from mmvidformer.config import config_name, load_config, merge_overrides, type_name
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.engine import loading
from mmvidformer.engine.arguments import add_overrides
from mmvidformer.finetune.recipe import PROBES, Recipe, RunSettings, apply_recipe
from mmvidformer.tasks.table import find_task

Kind = TypeVar("Kind", bound=RunSettings)


def add_run_arguments(
    parser: ArgumentParser, data: str, kind: type[RunSettings], **options: Mapping[str, Any]
) -> None:
    """Add config, data, and the settings of a run; None stands for the default of the settings.

    ``data`` is a help text; those of the settings are in the docstring of their class, ``kind``.
    ``options`` are further arguments of ``add_argument``, by setting.
    """
    parser.add_argument("--config", required=True, help="config file, or name of a shipped config")
    parser.add_argument("--data", required=True, help=data)
    parser.add_argument("--work-dir", type=Path, help="default: work_dirs/<config>_<command>")
    docs = f"{getdoc(kind)}\n{getdoc(RunSettings)}"
    for one in fields(kind):
        names = [f"--{one.name}".replace("_", "-"), *(["--gpus"] if one.name == "procs" else [])]
        found = re.search(rf"(?m)^    {one.name}: (.+(\n {{8}}.+)*)", docs)
        text = " ".join(found[1].split()).rstrip(".") if found else ""  # python -OO
        text = text[:1].lower() + text[1:]
        text += f" (default: {one.default})" if type(one.default) in (int, float, str) else ""
        base = (*get_args(one.type), one.type)[0]
        how = {"action": "store_true"} if base is bool else {"type": base}
        parser.add_argument(*names, help=text, **how, **options.get(one.name, {}))
    add_overrides(parser)
    parser.add_argument("--force", action="store_true", help="start again in a used work dir")


def read_settings(kind: type[Kind], args: Namespace) -> Kind:
    """Make settings of the arguments that were given."""
    given = {one.name: getattr(args, one.name) for one in fields(kind)}
    return kind(**{name: value for name, value in given.items() if value is not None})


def read_config(args: Namespace) -> Config:
    """Read the config with the overrides of its backbone, on which much of a recipe depends."""
    options = (args.cfg_options or {}).items()
    return load_config(args.config, {k: x for k, x in options if k.startswith("model.backbone.")})


def config_path(args: Namespace, command: str) -> Path:
    """Return where the complete config of a run goes, ``WORK_DIR/COMMAND/config.py``.

    It is not in the work dir itself, where every run writes its own, also a test with other views.

    Raises:
        FileExistsError: If it is there, and not ``--force``.
    """
    default = Path("work_dirs") / f"{config_name(args.config)}_{command}"
    path = (args.work_dir or default) / command / "config.py"
    if path.exists() and not args.force:
        is_probe = getattr(args, "method", None) in PROBES  # which is no training run
        resume = "" if is_probe else f"mmvidformer train {path} --resume resumes that run, "
        raise FileExistsError(f"{path} exists; {resume}--force starts again")
    return path


def prepare(args: Namespace, recipe: Recipe, lists: VideoLists) -> tuple[Config, Path]:
    """Write the config of a run of ``mmvidformer finetune``, and print what was changed.

    The recipe has settings of the parsed arguments. Returns the complete config, and its file in
    the work dir.

    Raises:
        FileExistsError: If the work dir has a config, and not ``--force``.
        WrongWeights: If ``--weights`` do not fit the model.
    """
    path, cfg = config_path(args, "finetune"), read_config(args)
    counts = ", ".join(f"{count} {split}" for split, count in lists.counts.items())
    print(f"{len(lists.classes)} {find_task(recipe.task).classes_word}; videos: {counts}")
    notes = apply_recipe(cfg, lists, recipe)
    merge_overrides(cfg, args.cfg_options)
    cfg.work_dir = str(path.parents[1])
    if weights := args.weights or cfg.get("load_from"):
        model = loading.build_meta_model(cfg)
        fit = loading.load_weights(model, loading.read_checkpoint(weights, model, "meta"))
        fit.check(weights, "features")
        notes.append(f"starts from {weights}; initial weights: {str(fit) or 'none'}")
    else:
        start = cfg.model.get("backbone", {}).get("init_from")
        notes.append(f"no --weights: the backbone starts from {start or 'random weights'}")
    path.parent.mkdir(parents=True, exist_ok=True)
    hooks = [x for x in cfg.get("custom_hooks") or () if type_name(x) != "SaveTrainedHook"]
    if recipe.method != "full":  # checkpoints hold what is trained, and name the file of the others
        if not weights:
            weights = str(path.with_name("start.pth"))
            torch.manual_seed(recipe.seed)
            state = loading.load_recognizer(cfg, None).backbone.state_dict(prefix="backbone.")
            state = {name: x for name, x in state.items() if "lora_" not in name}
            torch.save({"state_dict": state}, weights)
        weights = weights if is_address(weights) else str(Path(weights).absolute())
        hooks.append(dict(type="mmvidformer.SaveTrainedHook", weights=weights))
    cfg.custom_hooks = hooks
    if weights:
        cfg.merge_from_dict(dict(load_from=weights, resume=False))
        if "init_from" in cfg.model.backbone:
            cfg.model.backbone.init_from = None
    cfg.dump(path)
    print(*notes, f"config: {path}", sep="\n", flush=True)
    return cfg, path
