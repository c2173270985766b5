"""The start of a run of fine-tuning: its config, and the weights that it starts from."""

from argparse import Namespace
from pathlib import Path

import torch
from mmengine.config import Config

from mmvidformer.config import merge_overrides, type_name
from mmvidformer.convert.fetch import is_address
from mmvidformer.datasets.own_videos import VideoLists
from mmvidformer.engine import loading
from mmvidformer.finetune.arguments import config_path, read_config
from mmvidformer.finetune.recipe import Recipe, apply_recipe


def prepare(args: Namespace, recipe: Recipe, lists: VideoLists) -> tuple[Config, Path]:
    """Write the config of a run into its work dir, and print what was changed.

    Args:
        args: Parsed arguments of ``mmvidformer finetune``.
        recipe: The same, as settings.
        lists: Lists of the videos.

    Returns:
        The complete config, and its file.

    Raises:
        FileExistsError: If the work dir has a config, and not ``--force``.
        WrongWeights: If ``--weights`` do not fit the model.
    """
    path, cfg = config_path(args, "finetune"), read_config(args)
    counts = ", ".join(f"{count} {split}" for split, count in lists.counts.items())
    kind = "values" if recipe.task == "number" else "classes"
    print(f"{len(lists.classes)} {kind}; videos: {counts}")
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
    if recipe.method != "full":  # checkpoints hold what is trained, and name the other weights
        if not weights:
            weights = str(path.with_name("start.pth"))
            torch.manual_seed(recipe.seed)
            state = loading.load_recognizer(cfg, None).backbone.state_dict(prefix="backbone.")
            state = {name: x for name, x in state.items() if "lora_" not in name}
            torch.save({"state_dict": state}, weights)
        weights = weights if is_address(weights) else str(Path(weights).absolute())
        hooks.append(dict(type="mmvidformer.SaveTrainedHook", base=weights))
    cfg.custom_hooks = hooks
    if weights:
        cfg.merge_from_dict(dict(load_from=weights, resume=False))
        if "init_from" in cfg.model.backbone:
            cfg.model.backbone.init_from = None
    cfg.dump(path)
    print("\n".join(notes))
    print(f"config: {path}", flush=True)
    return cfg, path
