"""MMAction2's default runtime (hooks, logging, environment) with the hooks of this package.

On a machine without a GPU tools/train.py and test.py use gloo, whatever dist_cfg says.
"""

_base_ = "mmaction::_base_/default_runtime.py"

custom_imports = dict(imports=["mmvidformer"], allow_failed_imports=False)
default_hooks = dict(
    checkpoint=dict(type="mmvidformer.AtomicCheckpointHook", max_keep_ckpts=3),
    preflight=dict(type="mmvidformer.PreflightHook"),
    training_guard=dict(type="mmvidformer.TrainingGuardHook", non_finite="stop"),
    bad_videos=dict(
        type="mmvidformer.BadVideoHook", on_bad_video="resample", max_bad_share=0.05, time_limit=60
    ),
)
# Seconds that a rank waits for the others, which may have died, before it ends with an error.
env_cfg = dict(dist_cfg=dict(timeout=600))
