# Feature fixation on Something-Something V2, released settings: SGD at .03 with batch 32, 5 epochs
# of warm-up from .003, cosine over all 35. The warm-up is a factor on the cosine; the official code
# rises in a straight line to the cosine's value, at most 4% below. Its default, which the settings
# leave as it is, is Nesterov's momentum; the paper does not say.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=35, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
no_decay = dict(decay_mult=0.0)
optim_wrapper = dict(
    optimizer=dict(type="SGD", lr=0.03, momentum=0.9, nesterov=True, weight_decay=1e-4),
    # The official code spares the biases of the head, and no others.
    paramwise_cfg=dict(
        custom_keys={f"cls_head.{name}.bias": no_decay for name in ("norm", "fc_hidden", "fc_cls")}
    ),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.1, end=5, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", T_max=35, end=35, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=32)
