import numpy as np
import pytest
import torch

from mmvidformer.visualization import (
    build_split,
    build_view_pipeline,
    check_perplexity,
    collect_features,
    embed_in_plane,
    normalise,
    read_video,
)


def test_features_are_the_backbones_of_each_video(cfg, model, tiny_videos) -> None:
    videos = build_split(cfg, "val")
    found = collect_features(model, videos, batch_size=3)
    assert found.labels.tolist() == [0, 1, 2, 0, 1, 2, 0]
    pipeline = build_view_pipeline(cfg)
    for number, values in enumerate(found.values):
        clips, _ = read_video(pipeline, tiny_videos.root / f"val_{number}.mp4")
        expected = model.backbone(normalise(model, clips))[0].detach().numpy()
        np.testing.assert_allclose(values, expected, atol=1e-5)


def test_training_videos_are_seen_without_augmentation(cfg) -> None:
    cfg.train_dataloader.dataset.pipeline = [dict(type="mmvidformer.VideoRandAugment")]
    one, other = build_split(cfg, "train"), build_split(cfg, "train")
    assert len(one) == 8
    torch.testing.assert_close(one[5]["inputs"], other[5]["inputs"])


def test_some_videos_are_chosen_by_the_seed(cfg) -> None:
    chosen = [build_split(cfg, "val", 4, seed).indices for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert all(len(set(places)) == 4 for places in chosen)
    assert build_split(cfg, "val", 100).indices == list(range(7))
    with pytest.raises(ValueError, match="no dev_dataloader"):
        build_split(cfg, "dev")


@pytest.mark.parametrize("perplexity", [0, -1, 6, 7])
def test_perplexity_must_fit(perplexity: float) -> None:
    with pytest.raises(ValueError, match=f"below the number of videos, 6; got {perplexity}"):
        check_perplexity(perplexity, 6)
    with pytest.raises(ValueError, match="perplexity"):
        embed_in_plane(np.zeros((6, 3)), perplexity)


def test_clusters_stay_together_in_the_plane() -> None:
    pytest.importorskip("sklearn", reason="scikit-learn of setup.cfg is not installed")
    rng = np.random.default_rng(0)
    values = rng.normal(size=(40, 8)) + 30 * (np.arange(40)[:, None] % 2)
    places = embed_in_plane(values, perplexity=8)
    centres = np.stack([places[i::2].mean(0) for i in range(2)])
    nearest = np.linalg.norm(places[:, None] - centres, axis=-1).argmin(1)
    assert (nearest == np.arange(40) % 2).all()
    np.testing.assert_array_equal(places, embed_in_plane(values, perplexity=8))
