"""MMAction2's default runtime (hooks, logging, environment) with the hooks of this package.

Without a GPU, tools/train.py and tools/test.py use gloo, whatever backend dist_cfg sets.
"""

_base_ = "mmaction::_base_/default_runtime.py"

custom_imports = dict(imports=["mmvidformer.registry"], allow_failed_imports=False)
default_hooks = dict(
    checkpoint=dict(type="mmvidformer.AtomicCheckpointHook", max_keep_ckpts=3),
    preflight=dict(type="mmvidformer.PreflightHook"),
    training_guard=dict(type="mmvidformer.TrainingGuardHook"),
)
# Another clip for a video that cannot be read; in testing it counts as wrong.
bad_videos = dict(on_bad_video="resample", max_bad_share=0.05)
env_cfg = dict(
    # Dataloader workers are forked from a server that has only imported modules. A fork of the run
    # itself can hang: PyTorch's threads may hold a lock of the interpreter at that moment.
    mp_cfg=dict(mp_start_method="forkserver"),
    # Seconds a rank waits for the other ranks before it fails, in case one of them has died.
    dist_cfg=dict(timeout=600),
)
