# What the data loaders of all data sets share: 8 clips a device in training, one video a device and
# step with all its views in testing. A batch that does not come within 5 minutes ends the run.
train_dataloader = dict(
    batch_size=8,
    num_workers=8,
    persistent_workers=True,
    timeout=300,
    sampler=dict(type="mmvidformer.ResumableSampler", shuffle=True),
)
val_dataloader = dict(
    batch_size=8,
    num_workers=8,
    persistent_workers=True,
    timeout=300,
    sampler=dict(type="DefaultSampler", shuffle=False),
)
test_dataloader = dict(
    batch_size=1,
    num_workers=8,
    persistent_workers=True,
    timeout=300,
    sampler=dict(type="DefaultSampler", shuffle=False),
)
