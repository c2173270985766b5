"""mteb's video tasks: its own classes, with the videos that they generate."""

from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config
from torch.utils.data import DataLoader

mteb = pytest.importorskip("mteb", reason='needs pip install "mmvidformer[mteb]"')

from datasets import Dataset, Video  # noqa: E402
from mteb.mocks.mock_tasks import MockClassificationTask, MockVideoClassification  # noqa: E402

from lab.mteb_encoder import VideoEncoder  # noqa: E402
from mmvidformer.apis import Recognizer, backbone_features  # noqa: E402


@pytest.fixture
def config(cfg: Config, tmp_path: Path) -> str:
    """A config that reads content as shipped ones do."""
    for step in cfg.test_dataloader.dataset.pipeline:
        step.type = step.type.replace("Decord", "mmvidformer.Video")
    cfg.dump(tmp_path / "tiny.py")
    return str(tmp_path / "tiny.py")


@pytest.fixture
def encoder(config: str) -> VideoEncoder:
    return VideoEncoder(config, device="cpu", checkpoint=None)


def test_a_task_of_videos(encoder: VideoEncoder) -> None:
    """Its two videos, of which the training split has copies, are told apart."""
    result = mteb.evaluate(encoder, MockVideoClassification(), cache=None)
    (task_result,) = result.task_results
    (scores,) = task_result.scores["test"]
    assert scores["accuracy"] == 1.0
    assert result.model_name == "mmvidformer/tiny"


def load(videos: list) -> DataLoader:
    """What mteb's tasks give to ``encode``."""
    column = Dataset.from_dict({"video": videos, "label": [0] * len(videos)})
    return DataLoader(column.cast_column("video", Video()), batch_size=2)


def encode(encoder: VideoEncoder, loader: DataLoader) -> np.ndarray:
    metadata = MockVideoClassification.metadata
    return encoder.encode(loader, task_metadata=metadata, hf_split="test", hf_subset="default")


def test_features_are_those_of_the_pipeline(
    config: str, encoder: VideoEncoder, tiny_videos
) -> None:
    """Files and their content, also several layers, which are no results of others for mteb."""
    paths = sorted(tiny_videos.root.glob("*.mp4"))[:3]
    recognizer = Recognizer(config, None, "cpu")
    recognizer.model.load_state_dict(encoder.model.state_dict(), strict=False)
    expected = []
    for path in paths:
        sample = recognizer.pipeline.read(recognizer.pipeline.open(path))
        features = backbone_features(recognizer.model, sample["inputs"])
        expected.append(features.mean(dim=0).numpy())
    found = encode(encoder, load([*map(str, paths)]))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(encode(encoder, load([p.read_bytes() for p in paths])), found)


def test_results_of_other_weights_and_layers_are_others(config: str) -> None:
    one, other = (VideoEncoder(config, device="cpu", checkpoint=None) for _ in range(2))
    assert one.mteb_model_meta.revision != other.mteb_model_meta.revision
    two_layers = VideoEncoder(config, device="cpu", checkpoint=None, layers=[0, 0])
    assert two_layers.mteb_model_meta.experiment_name != one.mteb_model_meta.experiment_name
    assert VideoEncoder(config, "v1", checkpoint=None).mteb_model_meta.revision == "v1"


def test_what_is_no_video(encoder: VideoEncoder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"supports \['video'\]"):
        mteb.evaluate(encoder, MockClassificationTask(), cache=None)
    texts = DataLoader(Dataset.from_dict({"text": ["a"]}))
    with pytest.raises(ValueError, match="must have a column 'video' of datasets.Video, got text"):
        encode(encoder, texts)
    with pytest.raises(ValueError, match=r"cannot read video 0 of MockVideoClassification \(test"):
        encode(encoder, load([b"no video"]))
