"""Every shipped config: builds, reads a video, takes a training step and a test step."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DefaultScope

from lab.papers.rows import list_rows
from mmvidformer import get_config, list_models
from mmvidformer.config import frame_size, leaf_datasets
from mmvidformer.config.shipped import config_folder
from mmvidformer.engine.pipelines import get_views
from mmvidformer.models.preprocessor import VideoDataPreprocessor
from mmvidformer.registry import DATASETS, METRICS, MODELS
from tests.tiny_configs import sample, sampler, shrink, tiles

# Recognizers of views of a video. Others have tests of their own: feature_fixation_image in
# tests/cli/test_image_pretraining, camera_motion in test_camera_motion, and recurrent models,
# with other pipelines and heads, in test_configs_recurrent.
NAMES = [
    name
    for name in list_models()
    if not name.endswith("_image") and not name.startswith(("horst_", "causal_", "camera_"))
]
# Rows of other attention schemes, kernels, gates, shifts and samplers; all others are slow tests.
FAST = {
    *(f"feature_fixation/table1/{name}" for name in ("linformer", "performer", "linear_trans")),
    *(f"feature_fixation/table1/{name}" for name in ("cosformer", "lara", "orthoformer")),
    *(f"feature_fixation/table4/{name}" for name in ("none", "separate", "qk", "qk_shared")),
    *(f"feature_fixation/table6/{name}" for name in ("joint", "windowed")),
    *(f"feature_fixation/section5_3/{name}" for name in ("gates_first", "add", "multiply")),
    *("feature_fixation/section4_1/footnote_3", "feature_fixation/table5/identity"),
    *("timesformer/table5/base_paper", "timesformer/table5/hidden_layer"),
    *("feature_fixation/table1/ours_text", "feature_fixation/table11/square_2"),
    *(f"timesformer/table1/{name}_k400" for name in ("space", "joint", "local_global", "axial")),
    *(f"timesformer/table4/{name}_sthv2" for name in ("none", "space")),
    *(f"timesformer/section4_7/{name}_k400" for name in ("patch32", "space_time", "parallel")),
}
ROWS = [row for row in list_rows() if row.config in NAMES and row.options and not row.missing]
ROWS = {repr((row.config, row.options)): row.name for row in reversed(ROWS)}.values()  # none twice
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ROWS if name not in FAST]
FROZEN = (
    "levjepa",
    "internvideo",
    "onevision",
    "vjepa",
    "videoprism",
    "streamformer",
)  # whose configs train a head alone
NAMES_AND_ROWS = [*NAMES, *sorted(FAST), *SLOW]


@pytest.fixture(autouse=True)
def scope() -> Iterator[None]:
    with DefaultScope.overwrite_default_scope("mmaction"):
        yield


@pytest.fixture(scope="session")
def videos(tiny_videos) -> list[Path]:
    found = sorted(tiny_videos.root.rglob("*.mp4"))
    assert len(found) >= 2
    return found


@pytest.mark.parametrize("name", NAMES_AND_ROWS)
def test_training_step_reaches_every_parameter(name: str, videos: list[Path]) -> None:
    assert_training_reaches_all(shrink(get_config(name)), videos)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(FROZEN)])
def test_training_all_of_a_frozen_model_reaches_every_parameter(
    name: str, videos: list[Path]
) -> None:
    """As ``mmvidformer finetune --method full`` does; several processes wait for each gradient."""
    cfg = shrink(get_config(name))
    assert cfg.model.backbone.frozen_stages > -1
    cfg.model.backbone.frozen_stages = -1
    assert_training_reaches_all(cfg, videos)


def assert_training_reaches_all(cfg: Config, videos: list[Path]) -> None:
    """A step gives each parameter that is trained a gradient, and nothing else is left out."""
    torch.manual_seed(0)
    np.random.seed(0)
    model = MODELS.build(cfg.model)
    model.init_weights()
    head = model.cls_head.fc_cls.weight
    torch.nn.init.normal_(head, std=0.02)  # a head at zero lets no gradient through
    for step_name, parameter in model.named_parameters():
        is_extra = "time.attn.proj" in step_name or ".fc." in step_name
        if is_extra or step_name.endswith(".gate"):  # likewise extra attention
            torch.nn.init.normal_(parameter, std=0.02)
    wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    frozen = {name for name, _ in model.named_parameters()} - {*trained}
    if cfg.model.backbone.get("frozen_stages", -1) == -1:
        assert all("layer_norms" in name or "image_proj" in name for name in frozen)
    still = {*trained}
    for parameter_name, parameter in trained.items():

        def saw(parameter: torch.Tensor, name: str = parameter_name) -> None:
            still.discard(name if parameter.grad.any() else None)

        parameter.register_post_accumulate_grad_hook(saw)
    before = head.detach().clone()
    batch = pseudo_collate([sample(cfg, "train_pipeline", videos[i], i) for i in range(2)])
    logged = model.train_step(batch, wrapper)
    assert torch.isfinite(logged["loss"])
    assert not torch.equal(head, before)
    assert still == set()


@pytest.mark.parametrize("name", NAMES_AND_ROWS)
def test_test_step_fuses_the_views(name: str, videos: list[Path]) -> None:
    torch.manual_seed(0)
    cfg = shrink(get_config(name))
    model = MODELS.build(cfg.model).eval()
    item = sample(cfg, "test_pipeline", videos[0], 1)
    views = len(item["inputs"])
    assert views == math.prod(get_views(cfg)) or tiles(cfg)
    with torch.no_grad():
        fused = model.test_step(pseudo_collate([item]))[0].pred_score
        single = [
            model.test_step(pseudo_collate([{**item, "inputs": item["inputs"][i : i + 1]}]))[0]
            for i in range(views)
        ]
    for key in fused if isinstance(fused, dict) else [None]:
        scores = [s.pred_score if key is None else s.pred_score[key] for s in single]
        expected = torch.stack(scores).mean(0)  # of logits or of probabilities
        torch.testing.assert_close(
            fused if key is None else fused[key], expected, atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("name", NAMES_AND_ROWS)
def test_validation_gives_one_view_like_the_training_clips(name: str, videos: list[Path]) -> None:
    cfg = shrink(get_config(name))
    preprocess = MODELS.build({**cfg.model.data_preprocessor, "blending": None})
    train, val = (
        preprocess(pseudo_collate([sample(cfg, f"{p}_pipeline", videos[0], 1)]), p == "train")
        for p in ("train", "val")
    )
    train, val = train["inputs"][0], val["inputs"][0]
    assert train.shape[1:] == val.shape[1:]
    assert val.shape[0] == train.shape[0] == 1 or tiles(cfg)


@pytest.mark.parametrize("name", NAMES)
def test_parts_exist_and_fit(name: str) -> None:
    cfg = get_config(name)
    assert cfg.default_scope == "mmaction"
    assert "mmvidformer.registry" in cfg.custom_imports["imports"]
    for loader in (cfg.train_dataloader, cfg.val_dataloader, cfg.test_dataloader):
        assert DATASETS.get(loader.dataset.type) is not None
    assert METRICS.get(cfg.test_evaluator.type) is not None
    assert cfg.test_dataloader.dataset.pipeline == cfg.test_pipeline
    assert cfg.train_dataloader.dataset.pipeline == cfg.train_pipeline
    for pipeline in (cfg.train_pipeline, cfg.val_pipeline, cfg.test_pipeline):
        assert sampler(pipeline).clip_len == cfg.model.backbone.clip_len
    augment = cfg.model.data_preprocessor.get("augment") or ()
    assert frame_size([*cfg.train_pipeline, *augment]) == (cfg.model.backbone.img_size,) * 2
    crops = [t.crop_size for t in cfg.test_pipeline if "crop_size" in t]
    assert crops in ([], [cfg.model.backbone.img_size])
    with torch.device("meta"):
        backbone, head = MODELS.build(cfg.model.backbone), MODELS.build(cfg.model.cls_head)
    assert head.in_channels == backbone.embed_dims


@pytest.mark.parametrize("name", [name for name in list_models() if "_motion" not in name])
def test_recipes_augment_in_the_preprocessor(name: str) -> None:
    """The list that comes with the dataset; a config that forgot it would train without."""
    cfg = get_config(name)
    assert cfg.model.data_preprocessor.get("augment", []) == cfg.augment
    assert issubclass(MODELS.get(cfg.model.data_preprocessor.type), VideoDataPreprocessor)
    left = [t.type for t in cfg.train_dataloader.dataset.pipeline]
    assert not [kind for kind in left if re.search("Flip|Jitter|Augment|Erasing", kind)
                and not kind.endswith("ScaleJitter")]  # fmt: skip


@pytest.mark.parametrize("name", list_models())
def test_leaf_is_short_and_says_whose_figures_it_quotes(name: str) -> None:
    lines = (config_folder() / f"{name}.py").read_text().splitlines()
    header = " ".join(line for line in lines if line.startswith("#"))
    assert len(lines) <= 32
    assert lines[0].startswith("#")
    assert ("not measured here" in header or "measured here" in header
            or name.endswith("_motion"))  # fmt: skip


def test_channel_order_is_an_option(videos: list[Path]) -> None:
    """The weights for Something-Something V2 may want B, G, R (``to_rgb`` swaps)."""
    cfg = shrink(get_config("timesformer_b_sthv2"))
    batch = pseudo_collate([sample(cfg, "val_pipeline", videos[0], 0)])
    plain = MODELS.build(cfg.model.data_preprocessor)(batch)["inputs"]
    cfg.merge_from_dict({"model.data_preprocessor.to_rgb": True})
    swapped = MODELS.build(cfg.model.data_preprocessor)(batch)["inputs"]
    assert not torch.equal(plain, swapped)
    torch.testing.assert_close(plain.flip(2), swapped)


@pytest.mark.parametrize("name", list_models())
def test_names_of_classes_belong_to_the_annotations(name):
    """All splits have the same names, and a file of names lies beside the annotations."""
    cfg = get_config(name)
    loaders = [cfg.get(f"{split}_dataloader") for split in ("train", "val", "test")]
    datasets = [leaf for loader in loaders if loader for leaf in leaf_datasets(loader.dataset)]
    datasets = [leaf for leaf in datasets if "CameraMotion" not in leaf.type]  # it knows its names
    names = {(leaf.get("metainfo") or {}).get("classes") for leaf in datasets}
    assert len(names) == 1
    (classes,) = names
    if classes and not classes.startswith("labels://"):
        assert {Path(leaf.ann_file).parent for leaf in datasets} == {Path(classes).parent}
