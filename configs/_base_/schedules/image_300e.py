# Training of an image model from scratch: 300 epochs of AdamW at batch size 1024, like DeiT
# (Touvron et al. 2021, Table 9), without weight decay on norms and biases. DeiT's code changes the
# rate once an epoch; after the warm-up, they differ by less than 1% of the highest rate.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=300, val_interval=5)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="AdamW", lr=1e-3, weight_decay=0.05),
    paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=1e-3, end=5, convert_to_iter_based=True),
    dict(
        type="CosineAnnealingLR",
        begin=5,
        end=300,
        T_max=295,
        eta_min=1e-5,
        convert_to_iter_based=True,
    ),
]
auto_scale_lr = dict(enable=False, base_batch_size=1024)
