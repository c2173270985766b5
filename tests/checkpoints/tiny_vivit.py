"""A small ViViT."""

import torch

from mmvidformer.models import ViViT

ARCH = dict(embed_dims=32, depth=2, num_heads=4)


def vivit(scheme: str, tubelet: tuple = (2, 8, 8), **options: object) -> ViViT:
    torch.manual_seed(1)
    sizes = dict(img_size=32, clip_len=4, stem=dict(tubelet=tubelet)) | options
    return ViViT(dict(ARCH), scheme, **sizes).eval()
