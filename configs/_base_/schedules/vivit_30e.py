# ViViT's recipe (Table 7 of the arXiv version), 30 epochs at batch size 64: SGD without weight
# decay; 2.5 epochs of linear warm-up from 0, then a cosine over the other epochs, as in the
# official code. It clips the gradient of each device before averaging; MMEngine clips the average.
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=30, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="SGD", lr=0.1, momentum=0.9, weight_decay=0.0),
    clip_grad=dict(max_norm=1.0),
)
param_scheduler = [
    dict(
        type="mmvidformer.WarmupCosineLR",
        warmup=2.5,
        cosine_begin=2.5,
        end=30,
        convert_to_iter_based=True,
    )
]
auto_scale_lr = dict(enable=False, base_batch_size=64)
