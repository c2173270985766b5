# Dataloaders of all datasets: 8 clips per device for training, one video with all its views for
# testing. A run fails if a batch takes longer than 5 minutes. Dataloader workers are not
# persistent: the training and validation workers would add up.
train_dataloader = dict(
    batch_size=8,
    num_workers=8,
    timeout=300,
    sampler=dict(type="mmvidformer.ResumableSampler", shuffle=True),
)
val_dataloader = dict(
    batch_size=8,
    num_workers=8,
    timeout=300,
    sampler=dict(type="DefaultSampler", shuffle=False),
)
test_dataloader = dict(
    batch_size=1,
    num_workers=8,
    timeout=300,
    sampler=dict(type="DefaultSampler", shuffle=False),
)
