# ViViT's recipe with 50 epochs.
_base_ = "./vivit_30e.py"

train_cfg = dict(max_epochs=50)
optim_wrapper = dict(optimizer=dict(lr=0.5))
param_scheduler = _base_.param_scheduler
param_scheduler[0].update(end=50)
