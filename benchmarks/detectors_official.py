"""Train and test ActionFormer or TriDet by the code in a folder; see ``benchmarks.detectors``.

python -m benchmarks.detectors_official FOLDER config.yaml SEED DECAY TARGET
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch.utils.cpp_extension import load


def main(folder: Path, config: Path, seed: int, decay: float, target: Path) -> None:
    """Train as the authors' ``train.py`` does, without a GPU, and write the segments found.

    ``means.npz`` has those of the means of the weights, ``last.npz`` those of the last weights.
    """
    sys.path.insert(0, str(folder))
    sources = [str(folder / "libs" / "utils" / "csrc" / "nms_cpu.cpp")]
    # What their setup.py installs; each folder has its own, which is compiled once.
    sys.modules["nms_1d_cpu"] = load(f"nms_of_{config.parents[1].name}", sources)
    sys.modules.setdefault("h5py", ModuleType("h5py"))  # their reader of ActivityNet imports it
    from libs.core import load_config
    from libs.datasets import make_data_loader, make_dataset
    from libs.modeling import make_meta_arch
    from libs.utils import ModelEma, fix_random_seed, make_optimizer, make_scheduler

    cfg = load_config(str(config))
    cfg["loader"]["num_workers"] = 1  # their loader keeps workers
    generator = fix_random_seed(seed, include_cuda=False)
    data = make_dataset(cfg["dataset_name"], True, cfg["train_split"], **cfg["dataset"])
    loader = make_data_loader(data, True, generator, **cfg["loader"])
    model = make_meta_arch(cfg["model_name"], **cfg["model"])
    optimizer = make_optimizer(model, cfg["opt"])
    scheduler = make_scheduler(optimizer, cfg["opt"], len(loader))
    averaged = ModelEma(model, decay)
    model.train()
    for _ in range(cfg["opt"]["epochs"] + cfg["opt"]["warmup_epochs"]):
        for videos in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = model(videos)["final_loss"]
            loss.backward()
            limit = cfg["train_cfg"]["clip_grad_l2norm"]
            if limit > 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
            optimizer.step()
            scheduler.step()
            averaged.update(model)
        print(loss.item(), flush=True)
    data = make_dataset(cfg["dataset_name"], False, cfg["val_split"], **cfg["dataset"])
    for name, judged in dict(means=averaged.module, last=model.eval()).items():
        np.savez(target / f"{name}.npz", **find_segments(judged, data))


@torch.no_grad()
def find_segments(model: torch.nn.Module, videos: Iterable[dict]) -> dict[str, np.ndarray]:
    """Return the segments (n, 4) of each video: start, end, class, score."""
    found = {}
    for video in videos:
        (answer,) = model([video])
        columns = [*answer["segments"].T, answer["labels"], answer["scores"]]
        found[video["video_id"]] = np.stack([x.numpy() for x in columns], axis=1)
    return found


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[3]),
        float(sys.argv[4]),
        Path(sys.argv[5]),
    )
