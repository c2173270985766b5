"""Named initialisations of the references."""

from torch import nn

from mmvidformer.layers.attention import Attention
from mmvidformer.layers.embed import PositionEmbedding, TubeletEmbedding
from mmvidformer.layers.mlp import Mlp


def init_timm_vit(module: nn.Module) -> None:
    """Initialise the parts of a network as timm's ViT and the official TimeSformer do.

    Linear weights and position tables truncated N(0, 0.02), the table over time alone 0, biases
    0; the patch convolution keeps PyTorch's default. To be used with ``nn.Module.apply``.
    """
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, PositionEmbedding):
        for name, table in module.named_parameters(recurse=False):
            if name != "t":
                nn.init.trunc_normal_(table, std=0.02)


def init_flax_vit(module: nn.Module) -> None:
    """Initialise the parts of a network as flax and scenic's ViViT do.

    Kernels Xavier uniform, query, key and value each on its own; MLP biases N(0, 1e-6); the
    tubelet kernel LeCun normal; positions N(0, 0.02); all other biases and class tokens 0.
    To be used with ``nn.Module.apply``.
    """
    if isinstance(module, Attention):
        for kernel in (*module.qkv.weight.chunk(3), module.proj.weight):
            nn.init.xavier_uniform_(kernel)
        for bias in (module.qkv.bias, module.proj.bias):
            if bias is not None:
                nn.init.zeros_(bias)
    elif isinstance(module, Mlp):
        for layer in (module.fc1, module.fc2):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)
    elif isinstance(module, TubeletEmbedding):
        fan_in = module.proj.weight[0].numel()
        # Flax truncates at two sigma and divides by the deviation that the truncation leaves.
        std = fan_in**-0.5 / 0.87962566103423978
        nn.init.trunc_normal_(module.proj.weight, std=std, a=-2 * std, b=2 * std)
        nn.init.zeros_(module.proj.bias)
    elif isinstance(module, PositionEmbedding):
        for table in module.parameters(recurse=False):
            nn.init.normal_(table, std=0.02)
