# ActionFormer's official configuration for THUMOS-14 (61ea7eb): AdamW at batch size 2, without
# decay of biases, norms and scales; 5 epochs of linear warm-up, then 30 of a cosine; means of the
# weights, as its ModelEma.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=35, val_interval=5)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="AdamW", lr=1e-4, weight_decay=0.05),
    paramwise_cfg=dict(
        norm_decay_mult=0.0, bias_decay_mult=0.0, custom_keys=dict(scales=dict(decay_mult=0.0))
    ),
    clip_grad=dict(max_norm=1.0),
)
custom_hooks = [dict(type="EMAHook", momentum=1e-3)]
param_scheduler = [
    # MMEngine multiplies the rate step by step, so it cannot begin at 0.
    dict(type="LinearLR", start_factor=1e-12, end=5, convert_to_iter_based=True),
    dict(
        type="CosineAnnealingLR",
        begin=5,
        end=35,
        T_max=30,
        eta_min=1e-8,
        convert_to_iter_based=True,
    ),
]
auto_scale_lr = dict(enable=False, base_batch_size=2)
