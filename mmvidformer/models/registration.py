"""Names of the backbones, necks and layers in configs."""

from mmvidformer import layers, models
from mmvidformer.catalog import MODELS

for _model in vars(models).values():
    if isinstance(_model, type):
        MODELS.add(_model)
for _name in ("Attention", "Mlp", "PositionEmbedding", "TransformerBlock", "TubeletEmbedding"):
    MODELS.add(getattr(layers, _name))
