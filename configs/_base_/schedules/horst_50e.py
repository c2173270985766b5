# HORST's recipe (section "Training"): 50 epochs of AdaBelief with Lookahead, a constant learning
# rate of 0.002 followed by a cosine to 0 in the last quarter, and a batch size of 8 (early
# recognition) or 32 (anticipation) on four GPUs. The training code was never released: betas,
# epsilon, decoupled weight decay and rectification are AdaBelief's defaults, and k and alpha of
# Lookahead timm's.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=50, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(
        type="mmvidformer.TimmOptimizer",
        name="lookahead_radabelief",
        betas=(0.9, 0.999),
        eps=1e-16,
        lr=2e-3,
        weight_decay=1e-3,
    )
)
param_scheduler = [
    dict(type="CosineAnnealingLR", begin=37.5, end=50, T_max=12.5, convert_to_iter_based=True)
]
auto_scale_lr = dict(enable=False, base_batch_size=32)
