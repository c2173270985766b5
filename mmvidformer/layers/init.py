"""Weight initialization as in the reference implementations; for use with ``nn.Module.apply``."""

from torch import nn

from mmvidformer.layers.adapter import Adapter
from mmvidformer.layers.attention import Attention
from mmvidformer.layers.block import AttentionSubLayer
from mmvidformer.layers.encoder import Encoder
from mmvidformer.layers.mlp import Mlp
from mmvidformer.layers.positions import PositionEmbedding
from mmvidformer.layers.stem import TubeletEmbedding


def init_timm_vit(module: nn.Module) -> None:
    """Initialize a module like timm's ViT and the official TimeSformer.

    Linear weights, position tables and class tokens: truncated normal with standard deviation 0.02.
    Biases and the table over time alone: 0. The patch convolution keeps PyTorch's default.
    """
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, PositionEmbedding):
        for name, table in module.named_parameters(recurse=False):
            if name != "t":
                nn.init.trunc_normal_(table, std=0.02)
    elif isinstance(module, Encoder):
        for token in (module.cls_token, module.frame_token):
            if token is not None:
                nn.init.trunc_normal_(token, std=0.02)
    elif isinstance(module, Adapter):  # after its layers
        module.reset_parameters()
    elif isinstance(module, AttentionSubLayer):
        module.zero_parameters()


def init_flax_vit(module: nn.Module) -> None:
    """Initialize a module like flax and scenic's ViViT.

    Attention and MLP weights: Xavier uniform, with query, key and value on their own. MLP biases:
    normal with standard deviation 1e-6. Tubelet weights: LeCun normal. Positions: normal with
    standard deviation 0.02. All other biases and class tokens: 0.
    """
    if isinstance(module, Attention):
        for weight in (*module.qkv.weight.chunk(module.kernel.parts), module.proj.weight):
            nn.init.xavier_uniform_(weight)
        for bias in (module.qkv.bias, module.proj.bias):
            if bias is not None:
                nn.init.zeros_(bias)
    elif isinstance(module, Mlp):
        for layer in (module.fc1, module.fc2):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)
    elif isinstance(module, TubeletEmbedding):
        for conv in (module.proj, module.image_proj):
            if conv is None:
                continue
            fan_in = conv.weight[0].numel()
            # Flax truncates at two sigma and divides by the deviation that the truncation leaves.
            std = fan_in**-0.5 / 0.87962566103423978
            nn.init.trunc_normal_(conv.weight, std=std, a=-2 * std, b=2 * std)
            if conv.bias is not None:
                nn.init.zeros_(conv.bias)
    elif isinstance(module, PositionEmbedding):
        for table in module.parameters(recurse=False):
            nn.init.normal_(table, std=0.02)
    elif isinstance(module, AttentionSubLayer):
        module.zero_parameters()


INITS = {"timm": init_timm_vit, "flax": init_flax_vit}
