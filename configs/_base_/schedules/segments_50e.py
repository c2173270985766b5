# ActionFormer's official configuration for THUMOS-14 as first released: AdamW at batch size 2; 5
# epochs of linear warm-up, then 45 of a cosine (30 since May 2022).
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=50, val_interval=5)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="AdamW", lr=1e-4, weight_decay=0.05), clip_grad=dict(max_norm=1.0)
)
param_scheduler = [
    # MMEngine multiplies the rate step by step, so it cannot begin at 0.
    dict(type="LinearLR", start_factor=1e-12, end=5, convert_to_iter_based=True),
    dict(
        type="CosineAnnealingLR",
        begin=5,
        end=50,
        T_max=45,
        eta_min=1e-8,
        convert_to_iter_based=True,
    ),
]
auto_scale_lr = dict(enable=False, base_batch_size=2)
