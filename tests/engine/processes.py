"""What each of two processes does in test_lost_processes.py: ``processes.py CASE FOLDER``."""

import os
import signal
import sys

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DATASETS, HOOKS, MODELS

from mmvidformer.engine.errors import run_tool
from mmvidformer.engine.launch import build_runner
from tests.engine.toys import Line, Numbers

CASE, FOLDER = sys.argv[1:3]
RANK = int(os.environ["RANK"])


DATASETS.register_module()(Numbers)
MODELS.register_module()(Line)


@HOOKS.register_module()
class Trouble(Hook):
    """What happens to the second process in step 4."""

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        if RANK == 1 and runner.iter == 3:
            if CASE == "sigterm":
                os.kill(os.getpid(), signal.SIGTERM)
            if CASE == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if CASE == "hangs":
                signal.pause()
            if CASE == "stop":
                data_batch["x"].fill_(float("nan"))


def main() -> None:
    """Train on the numbers."""
    cfg = Config(
        dict(
            work_dir=FOLDER,
            launcher="pytorch",
            env_cfg=dict(dist_cfg=dict(timeout=10)),
            default_scope="mmaction",
            train_dataloader=dict(
                dataset=dict(type="Numbers"),
                batch_size=2,
                num_workers=0,
                collate_fn=dict(type="default_collate"),
                sampler=dict(type="mmvidformer.ResumableSampler"),
            ),
            model=dict(type="Line"),
            custom_hooks=[dict(type="Trouble")],
            train_cfg=dict(type="mmvidformer.ResumableTrainLoop", max_epochs=3),
            optim_wrapper=dict(optimizer=dict(type="SGD", lr=1e-3)),
            default_hooks=dict(
                checkpoint=dict(type="mmvidformer.AtomicCheckpointHook", interval=1),
                training_guard=dict(type="mmvidformer.TrainingGuardHook"),
            ),
            randomness=dict(seed=0),
        )
    )
    runner = build_runner(cfg)
    runner.train()
    print(f"rank {RANK} factor {runner.model.module.factor.item():.9f} iter {runner.iter}")


torch.set_num_threads(1)
sys.exit(run_tool(main))
