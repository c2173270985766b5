# TimeSformer's recipe: 15 epochs of SGD at batch size 64 (GLOBAL_BATCH_SIZE of the official code)
# with learning rate 0.005, divided by 10 at epochs 11 and 14, and weight decay on all parameters.
# Appendix A has the same rate, and a batch size of 16 "across 32 GPUs".
train_cfg = dict(type="mmvidformer.ResumableTrainLoop", max_epochs=15, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
optim_wrapper = dict(
    optimizer=dict(type="SGD", lr=0.005, momentum=0.9, nesterov=True, weight_decay=1e-4)
)
param_scheduler = [dict(type="MultiStepLR", milestones=[11, 14], gamma=0.1)]
auto_scale_lr = dict(enable=False, base_batch_size=64)
