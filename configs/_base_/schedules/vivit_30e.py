# ViViT's recipe (Table 7 of the arXiv version), 30 epochs at batch size 64: SGD without weight
# decay; 2.5 epochs of linear warm-up from 0, multiplied by a cosine over the whole run. The
# official code clips the gradient of each device before averaging; MMEngine clips the average.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=30, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="SGD", lr=0.1, momentum=0.9, weight_decay=0.0),
    clip_grad=dict(max_norm=1.0),
)
param_scheduler = [
    dict(type="LinearLR", start_factor=1e-6, end=2.5, convert_to_iter_based=True),
    dict(type="CosineAnnealingLR", T_max=30, end=30, convert_to_iter_based=True),
]
auto_scale_lr = dict(enable=False, base_batch_size=64)
