"""The policy of a config reaches its data sets."""

from mmengine.config import Config

from mmvidformer.engine.bad_videos import use_bad_video_policy


def test_the_policy_is_laid_on_every_data_set_once():
    inner = dict(type="VideoDataset", ann_file="x.txt")
    own = dict(type="mmvidformer.SafeDataset", dataset=inner, on_bad_video="raise")
    cfg = Config(
        dict(
            train_dataloader=dict(dataset=inner),
            val_dataloader=dict(dataset=own),
            test_dataloader=None,
            bad_videos=dict(on_bad_video="resample", time_limit=9),
        )
    )
    for _ in range(2):
        use_bad_video_policy(cfg)
    assert cfg.train_dataloader.dataset == dict(
        type="mmvidformer.SafeDataset", dataset=inner, on_bad_video="resample", time_limit=9
    )
    assert cfg.val_dataloader.dataset == own
    assert cfg.custom_hooks == [dict(type="mmvidformer.BadVideoHook")]


def test_without_a_policy_nothing_changes():
    cfg = Config(dict(train_dataloader=dict(dataset=dict(type="VideoDataset"))))
    use_bad_video_policy(cfg)
    assert cfg.to_dict() == dict(train_dataloader=dict(dataset=dict(type="VideoDataset")))
