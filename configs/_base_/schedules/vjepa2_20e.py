# Training of V-JEPA 2's classifier on the frozen encoder: 20 epochs of AdamW without warm-up. The
# official evaluation trains 20 classifiers at once, with rates of 0.0001 to 0.005 and weight decay
# of 0.01 to 0.8, and reports the best; this is one of them. It counts steps from 1, so its rates
# are those of the next step here.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=20, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(optimizer=dict(type="AdamW", lr=1e-3, weight_decay=0.01))
param_scheduler = [
    dict(type="CosineAnnealingLR", T_max=20, end=20, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=256)
