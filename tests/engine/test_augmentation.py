"""Augmentation in the workers instead of on the device."""

import pytest

from mmvidformer import get_config
from mmvidformer.engine.augmentation import augment_in_workers


def test_the_list_moves_to_the_end_of_the_training_pipelines() -> None:
    cfg, before = get_config("vivit_fe_k400"), get_config("vivit_fe_k400")
    inner = cfg.train_dataloader.dataset
    other = dict(type="RepeatDataset", times=2, dataset=inner)
    cfg.train_dataloader.dataset = dict(type="ConcatDataset", datasets=[inner, other])
    augment_in_workers(cfg)
    assert "augment" not in cfg.model.data_preprocessor
    datasets = cfg.train_dataloader.dataset.datasets
    for dataset in (datasets[0], datasets[1].dataset):
        *steps, last = dataset.pipeline
        assert steps == before.train_dataloader.dataset.pipeline
        assert last.type == "mmvidformer.ClipAugment"
        assert last.transforms == before.model.data_preprocessor.augment
    assert cfg.val_dataloader == before.val_dataloader


def test_a_config_without_augmentation_is_refused() -> None:
    with pytest.raises(ValueError, match="no model.data_preprocessor.augment"):
        augment_in_workers(get_config("vivit_fe_motion"))
