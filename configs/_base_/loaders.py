# Dataloaders of all datasets: 8 clips per device for training, one video with all its views for
# testing. A run fails if a batch takes longer than 5 minutes. Workers start once, as in MMAction2's
# configs, and are forked by a server without threads (default_runtime.py).
worker_init = dict(type="mmvidformer.data.workers.init_worker")
train_dataloader = dict(
    batch_size=8,
    num_workers=8,
    persistent_workers=True,
    timeout=300,
    worker_init_fn=worker_init,
    sampler=dict(type="mmvidformer.ResumableSampler", shuffle=True),
)
val_dataloader = dict(
    batch_size=8,
    num_workers=8,
    persistent_workers=True,
    timeout=300,
    worker_init_fn=worker_init,
    sampler=dict(type="DefaultSampler", shuffle=False),
)
test_dataloader = dict(
    batch_size=1,
    num_workers=8,
    timeout=300,
    worker_init_fn=worker_init,
    sampler=dict(type="DefaultSampler", shuffle=False),
)
