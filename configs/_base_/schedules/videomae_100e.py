# VideoMAE's fine-tuning of ViT-B on Kinetics-400 (FINETUNE.md of the official code): 100 epochs of
# AdamW with a rate of 0.001 for 256 clips, here for a batch of 512; 5 epochs of warm-up from 0,
# then a cosine to a thousandth; rates decay by 0.75 from block to block. The official scripts of
# other sizes have other rates and numbers of epochs (S 150, L 35, H 50), those of VideoMAE v2 too.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=100, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    constructor="mmvidformer.LayerDecayOptimWrapperConstructor",
    optimizer=dict(type="AdamW", lr=2e-3, betas=(0.9, 0.999), weight_decay=0.05),
    paramwise_cfg=dict(layer_decay=0.75, norm_decay_mult=0.0, bias_decay_mult=0.0),
)
param_scheduler = [
    # MMEngine multiplies the rate step by step, so it cannot begin at 0.
    dict(type="LinearLR", start_factor=1e-12, end=5, convert_to_iter_based=True),
    dict(
        type="CosineAnnealingLR",
        begin=5,
        end=100,
        T_max=95,
        eta_min_ratio=1e-3,
        convert_to_iter_based=True,
    ),
]
auto_scale_lr = dict(enable=False, base_batch_size=512)
