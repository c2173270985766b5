"""Where clips are augmented: on the device, as shipped configs do, or in dataloader workers."""

from mmengine.config import Config

from mmvidformer.config import leaf_datasets


def augment_in_workers(cfg: Config) -> None:
    """Move the augmentation of a config from its data preprocessor into the training pipelines.

    Raises:
        ValueError: If the data preprocessor does not augment.
    """
    transforms = (cfg.model.get("data_preprocessor") or {}).pop("augment", None)
    if not transforms:
        raise ValueError("the config has no model.data_preprocessor.augment to run in workers")
    step = dict(type="mmvidformer.ClipAugment", transforms=transforms)
    for dataset in leaf_datasets(cfg.train_dataloader.dataset):
        if step not in dataset["pipeline"]:  # of a dataset that is read twice
            dataset["pipeline"] = [*dataset["pipeline"], step]
