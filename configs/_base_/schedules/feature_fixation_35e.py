# Released settings of feature fixation on Something-Something V2: SGD with learning rate 0.03 at
# batch size 32, 5 epochs of warm-up from 0.003 to the value of a cosine over all 35 epochs, which
# follows. Nesterov momentum is the default of the official code, which the settings do not
# override; the paper does not mention it.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=35, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
no_decay = dict(decay_mult=0.0)
optim_wrapper = dict(
    optimizer=dict(type="SGD", lr=0.03, momentum=0.9, nesterov=True, weight_decay=1e-4),
    # The official code exempts only the biases of the head from weight decay.
    paramwise_cfg=dict(
        custom_keys={f"cls_head.{name}.bias": no_decay for name in ("norm", "fc_hidden", "fc_cls")}
    ),
)
param_scheduler = [
    dict(
        type="mmvidformer.WarmupCosineLR",
        warmup=5,
        start_factor=0.1,
        cosine_begin=0,
        end=35,
        convert_to_iter_based=True,
    )
]
auto_scale_lr = dict(enable=False, base_batch_size=32)
