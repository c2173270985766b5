# Released settings of feature fixation on Kinetics: SGD with learning rate 0.035 at batch size 32
# (from the released script; the config that it overrides has 64), 5 epochs of warm-up from 0.01 to
# the value of a cosine over all 40 epochs, which follows. On momentum, see feature_fixation_35e.py.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=40, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
no_decay = dict(decay_mult=0.0)
optim_wrapper = dict(
    optimizer=dict(type="SGD", lr=0.035, momentum=0.9, nesterov=True, weight_decay=1e-5),
    # The official code exempts only the biases of the head from weight decay.
    paramwise_cfg=dict(
        custom_keys={f"cls_head.{name}.bias": no_decay for name in ("norm", "fc_hidden", "fc_cls")}
    ),
)
param_scheduler = [
    dict(
        type="mmvidformer.WarmupCosineLR",
        warmup=5,
        start_factor=0.01 / 0.035,
        cosine_begin=0,
        end=40,
        convert_to_iter_based=True,
    )
]
auto_scale_lr = dict(enable=False, base_batch_size=32)
