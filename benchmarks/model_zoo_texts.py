"""Text of the page of the model zoo."""

INTRO = """\
# Model zoo

```bash
mmvidformer models                           # all configs, with sizes and published weights
mmvidformer models timesformer --pretrained  # a part of the name; only those with weights
mmvidformer models --license apache-2.0      # only those with this license; also mit, cc-by-4.0
python -m lab paper show vivit table2          # rows of a paper, with its figures
```

A name works wherever a config does: `mmvidformer train NAME`, `mmvidformer test NAME CHECKPOINT`.
[Fine-tune](finetune.md#choose-a-model) has a picture that helps to choose.

## Configs
Parameters and MACs are those of one view of T frames, with the classifier. The accuracy is as
published, **not measured here**; `mmvidformer models` prints its views. Small configs for
[generated videos](motion_dataset.md) are not listed.
"""

PUBLISHED_WEIGHTS = """\
## Published checkpoints
`published://NAME` is the address of the weights of a config above ([addresses](checkpoints.md)).
`mmvidformer models --pretrained` lists further ones: mirrors, weights of other projects, and
backbones without a head. `camera_motion` comes with the package. The others were not downloaded or
tested here. `python -m lab verify NAME` checks them, in a clone.
"""
