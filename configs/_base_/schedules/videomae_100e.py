# VideoMAE's fine-tuning on Kinetics-400 (FINETUNE.md of the official code): 100 epochs of AdamW
# with a rate of 0.001 for 256 clips, here for a batch of 512; 5 epochs of warm-up, then a cosine;
# rates decay by 0.75 from block to block.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=100, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    constructor="mmvidformer.LayerDecayOptimWrapperConstructor",
    optimizer=dict(type="AdamW", lr=2e-3, betas=(0.9, 0.999), weight_decay=0.05),
    paramwise_cfg=dict(layer_decay=0.75, norm_decay_mult=0.0, bias_decay_mult=0.0),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=1e-3, end=5, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", begin=5, end=100, T_max=95, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=512)
