"""Names of the backbones, necks and layers in configs; the registry imports it at a look-up."""

from mmvidformer import layers, models
from mmvidformer.registry import MODELS

for _model in vars(models).values():
    if isinstance(_model, type):
        MODELS.register_module(module=_model)
for _name in ("Attention", "Mlp", "PositionEmbedding", "TransformerBlock", "TubeletEmbedding"):
    MODELS.register_module(module=getattr(layers, _name))
