# Dataloaders of all datasets: batches of 8 clips per device in training, of one video with all its
# views in testing. A batch that does not come within 5 minutes ends the run. Workers are not
# persistent: those of training and validation, each with a helper process, would add up.
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
