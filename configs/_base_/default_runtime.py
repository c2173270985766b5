"""Runtime of all configs: MMAction2's default one with the hooks of this package.

Without a GPU, mmvidformer train and mmvidformer test use gloo, whatever backend dist_cfg sets.
"""

default_scope = "mmaction"
custom_imports = dict(imports=["mmvidformer.registry"], allow_failed_imports=False)
default_hooks = dict(
    runtime_info=dict(type="RuntimeInfoHook"),
    timer=dict(type="IterTimerHook"),
    logger=dict(type="LoggerHook", interval=20, ignore_last=False),
    param_scheduler=dict(type="ParamSchedulerHook"),
    sampler_seed=dict(type="DistSamplerSeedHook"),
    sync_buffers=dict(type="SyncBuffersHook"),
    checkpoint=dict(
        type="mmvidformer.AtomicCheckpointHook", interval=1, save_best="auto", max_keep_ckpts=3
    ),
    preflight=dict(type="mmvidformer.PreflightHook"),
    training_guard=dict(type="mmvidformer.TrainingGuardHook"),
    fast_training=dict(type="mmvidformer.FastTrainingHook"),
)
# Another clip for a video that cannot be read; in testing it counts as wrong.
bad_videos = dict(on_bad_video="resample", max_bad_share=0.05)
env_cfg = dict(
    cudnn_benchmark=False,
    # Dataloader workers are forked from a server that has only imported modules. A fork of the run
    # itself can hang: PyTorch's threads may hold a lock of the interpreter at that moment.
    mp_cfg=dict(mp_start_method="forkserver", opencv_num_threads=0),
    # Seconds a rank waits for the other ranks before it fails, in case one of them has died.
    dist_cfg=dict(backend="nccl", timeout=600),
)
log_processor = dict(type="LogProcessor", window_size=20, by_epoch=True)
vis_backends = [dict(type="LocalVisBackend")]
visualizer = dict(type="ActionVisualizer", vis_backends=vis_backends)
log_level = "INFO"
load_from = None
resume = False
