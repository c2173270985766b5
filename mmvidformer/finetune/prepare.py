"""The config of a run on your videos: read, adapted, checked and written."""

import re
from pathlib import Path

import torch
from mmengine.config import Config

from mmvidformer.checkpoints.download import is_address
from mmvidformer.config import config_name, load_config, merge_overrides, type_name
from mmvidformer.config.fragments import Fragment, merge
from mmvidformer.data.list_folders import VideoLists
from mmvidformer.engine import loading
from mmvidformer.engine.inputs import check_apart, check_unused
from mmvidformer.engine.pipelines import check_views, use_shards
from mmvidformer.engine.run_options import check_work_dir
from mmvidformer.errors import FileThere, UserError
from mmvidformer.finetune.recipe import apply_recipe
from mmvidformer.finetune.schedule import note_few_steps
from mmvidformer.finetune.settings import FinetuneOptions, RunOptions
from mmvidformer.storage.atomic import write_atomically
from mmvidformer.storage.files import write_file
from mmvidformer.storage.targets import check_targets
from mmvidformer.tasks.table import find_task

RESULT = "result.json"  # beside the config: what the run reached


def read_config(options: RunOptions) -> Config:
    """Read the config with the overrides of its backbone, on which much of a recipe depends.

    One that generates its clips names another one as ``own_videos``, which is read instead.
    """
    overrides = _options_below(options, "model.backbone.")
    cfg = load_config(options.config, overrides)
    return load_config(cfg.own_videos, overrides) if cfg.get("own_videos") else cfg


def _options_below(options: RunOptions, prefix: str) -> dict[str, object]:
    """Return the overrides of a part of the config."""
    overrides = options.cfg_options or {}
    return {key: overrides[key] for key in overrides if key.startswith(prefix)}


def config_path(options: RunOptions, command: str) -> Path:
    """Return where the complete config of a run goes, ``WORK_DIR/COMMAND/config.py``.

    It is not in the work dir itself, where every run writes its own, also a test with other views.

    Raises:
        FileExistsError: If it is there, or checkpoints of another run are, and neither ``--force``
            nor ``--resume``.
        UserError: If the work dir is an address.
    """
    work_dir = options.work_dir or f"work_dirs/{config_name(options.config)}_{command}"
    check_work_dir(work_dir)
    path = Path(work_dir) / command / "config.py"
    if path.exists() and not options.force and not options.resume:
        resume = "--resume goes on with that run, " if options.trains else ""
        raise FileThere(f"{path} exists; {resume}--force starts again")
    if not options.force and not options.resume:
        check_unused(work_dir)
    result = ("the result of the run", path.with_name(RESULT))
    if not path.exists():
        check_targets([result], [], force=options.force)
    elif options.force and Path(options.config).is_file():
        check_targets([("the config of the run", path), result], [options.config], force=True)
    return path


def write_config(options: FinetuneOptions, lists: VideoLists) -> tuple[Config, Path]:
    """Write the config of a run of ``mmvidformer finetune``, and print what was changed.

    Returns the complete config, and its file in the work dir.

    Raises:
        FileExistsError: If the work dir has a config, and neither ``--force`` nor ``--resume``.
        WrongWeights: If ``--weights`` do not fit the model.
        UserError: If the config or the lists do not allow the recipe, a run that goes on has other
            classes, validation and test differ (``check_views``), or the run would write over the
            weights (``check_apart``).
    """
    path, base = config_path(options, "finetune"), read_config(options)
    recipe = options.recipe
    print(find_task(recipe.task).say_counts(lists))
    if options.weights:
        merge(base, {"load_from": options.weights})
    loader_options = _options_below(options, "train_dataloader.")
    cfg, notes = apply_recipe(base, lists, recipe, loader_options)
    if options.shards:
        use_shards(cfg, options.shards)
    merge_overrides(cfg, options.cfg_options)
    if options.resume and path.exists():
        old_names = Config.fromfile(path).get("class_names")
        if old_names != cfg.get("class_names"):
            other = f"{path} has other classes than {options.data}"
            raise UserError(f"{other}; name another --work-dir")
    check_views(cfg)
    weights = options.weights or cfg.get("load_from")
    if not options.resume:
        check_apart(weights, path.parents[1])
    notes.append(check_start(cfg, weights))
    if not recipe.is_probe:
        notes += note_few_steps(cfg, lists, recipe)
    path.parent.mkdir(parents=True, exist_ok=True)
    if recipe.method != "full":
        weights = weights or save_start(cfg, path.with_name("start.pth"), recipe.seed)
        if not is_address(weights):
            weights = str(Path(weights).absolute())
    merge(cfg, _start_fragment(cfg, weights, recipe.method))
    merge(cfg, {"work_dir": str(path.parents[1])})
    write_file(path, cfg.pretty_text.encode())
    print(*notes, f"config: {path}", sep="\n", flush=True)
    return cfg, path


def _start_fragment(cfg: Config, weights: str | None, method: str) -> Fragment:
    """Return what loads the weights of the start, and what checkpoints keep of a model."""
    old_hooks = cfg.get("custom_hooks") or ()
    hooks = [hook for hook in old_hooks if type_name(hook) != "SaveTrainedHook"]
    if method != "full":  # checkpoints hold what is trained, and name the file of the others
        hooks.append(dict(type="mmvidformer.SaveTrainedHook", weights=weights))
    fragment: Fragment = {"custom_hooks": hooks}
    if weights:
        fragment |= dict(load_from=weights, resume=False)
        if "init_from" in cfg.model.backbone:
            fragment["model"] = {"backbone": {"init_from": None}}
    return fragment


def check_start(cfg: Config, weights: str | None) -> str:
    """Check that a checkpoint fits the model, and say what a run starts from."""
    if not weights:
        start = cfg.model.get("backbone", {}).get("init_from")
        return f"no --weights: the backbone starts from {start or 'random weights'}"
    model = loading.build_meta_model(cfg)
    fit = loading.load_weights(model, loading.read_checkpoint(weights, model, "meta"))
    fit.check(weights, "features")
    return f"starts from {weights}; initial weights: {str(fit) or 'none'}"


def save_start(cfg: Config, path: Path, seed: int) -> str:
    """Write the initial weights of the backbone, without LoRA and adapters; returns the file.

    Equal weights make equal files, by which features of other runs are known.
    """
    torch.manual_seed(seed)
    state = loading.load_recognizer(cfg, None).backbone.state_dict(prefix="backbone.")
    added = re.compile(r"\.lora_|\.adapter\.")
    state = {name: value for name, value in state.items() if not added.search(name)}
    with write_atomically(path) as part, part.open("wb") as file:
        torch.save({"state_dict": state}, file)  # a path would be stored in it
    return str(path)
