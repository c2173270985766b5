"""Attention rollout as a product of explicit matrices over all tokens."""

import torch
from torch import Tensor, nn

from mmvidformer.layers import PATTERNS, Attention, Encoder
from tests.layers.pairs import run


@torch.no_grad()
def dense_rollout(model: nn.Module, clip: Tensor) -> tuple[Tensor, Tensor]:
    """Shares of the tokens (T, H, W) and of class tokens, by explicit matrices."""
    grid = model.embed(clip)[0]
    has_cls = model.encoders[0].cls_token is not None
    if model.encoders[0].frames == "together":
        row = pooled_row(encoder_product(model.encoders[0], grid)[0], has_cls)
        return row[:-1].reshape(grid.shape[:3]), row[-1]
    results = [encoder_product(model.encoders[0], frame[None]) for frame in grid]
    frames = torch.stack([pooled_row(product, has_cls) for product, _ in results])  # (T, HW + 1)
    over_time = torch.full((len(frames),), 1 / len(frames))
    rest = 0
    if len(model.encoders) > 1:
        outputs = [model.encoders[0].norm(tokens) for _, tokens in results]
        pooled = torch.stack([out[0] if has_cls else out.mean(0) for out in outputs])
        product, _ = encoder_product(model.encoders[1], pooled[:, None, None])
        row = pooled_row(product, has_cls)
        over_time, rest = row[:-1], row[-1]
    shares = over_time[:, None] * frames
    return shares[:, :-1].reshape(grid.shape[:3]), shares[:, -1].sum() + rest


def encoder_product(encoder: Encoder, grid: Tensor) -> tuple[Tensor, Tensor]:
    """Run an encoder on one grid (T, H, W, D) and multiply its dense layers; and its tokens."""
    size = tuple(grid.shape[:3])
    cls = None if encoder.cls_token is None else encoder.cls_token
    tables, cls = encoder.pos_embed(size, grid, cls)
    grid = sum(tables, grid[None])
    count = grid[0, ..., 0].numel() + (cls is not None)
    product = torch.eye(count)
    for block in encoder.blocks:
        layers = []
        source, cls_source = grid, cls
        for sublayer in block.sublayers.values():
            read, cls_read = (source, cls_source) if block.parallel else (grid, cls)
            tokens = sublayer.norm(read).flatten(1, 3)[0]
            if cls_read is not None:
                tokens = torch.cat([sublayer.norm(cls_read)[0], tokens])
            attn, each = sublayer.attn, sublayer.attn.num_heads // len(sublayer.attn.patterns)
            names = [
                next(n for n, v in PATTERNS.items() if v is pattern) for pattern in attn.patterns
            ]
            per_view = [
                weights(attn, name, slice(i * each, (i + 1) * each), tokens, attn.cls, size)
                for i, name in enumerate(names)
            ]
            layers.append(torch.stack(per_view).mean(0))
            update, cls_update = run(
                attn, sublayer.norm(read), cls_read if cls_read is None else sublayer.norm(cls_read)
            )
            if sublayer.fc is not None:
                update = sublayer.fc(update)
                cls_update = None if cls_update is None else sublayer.fc(cls_update)
            grid = grid + update
            cls = cls if cls_update is None else cls + cls_update
        if block.parallel:
            product = torch.stack([torch.eye(count), *layers]).mean(0) @ product
        else:
            for layer in layers:
                product = (layer + torch.eye(count)) / 2 @ product
        grid = grid + block.mlp(block.norm(grid))
        cls = cls if cls is None else cls + block.mlp(block.norm(cls))
    tokens = grid.flatten(1, 3)[0]
    return product, tokens if cls is None else torch.cat([cls[0], tokens])


def pooled_row(product: Tensor, has_cls: bool) -> Tensor:
    """Row of the pooled output over the grid's tokens and, last, the class token."""
    row = product[0] if has_cls else product.mean(0)
    return torch.cat([row[1:], row[:1]]) if has_cls else nn.functional.pad(row, (0, 1))


def weights(attn: Attention, pattern: str, heads: slice, tokens: Tensor, cls: str, size: tuple):
    """Mean weights (N, N) of some heads, over all tokens or, where cls is used, cls and all."""
    coords = torch.cartesian_prod(*(torch.arange(n) for n in size)).reshape(-1, 3)
    has_cls = len(tokens) > len(coords)
    q, k, _ = attn.qkv(tokens).unflatten(-1, (3, attn.num_heads, -1)).unbind(1)
    scores = torch.einsum("inc,jnc->nij", q, k)[heads] / q.shape[-1] ** 0.5
    if pattern == "strided":
        sees = (coords % 2 == 0).all(-1).expand(len(coords), -1)
    elif pattern == "local":
        window = torch.tensor(size[1:]) // 2
        offset = coords[None, :, 1:] - coords[:, None, 1:]
        sees = ((offset >= -(window // 2)) & (offset < window - window // 2)).all(-1)
    else:
        fixed = [i for i, axis in enumerate("thw") if axis in PATTERNS[pattern].groups]
        sees = (coords[:, None, fixed] == coords[None, :, fixed]).all(-1)

    def shares(scores: Tensor, sees: Tensor) -> Tensor:
        return scores.masked_fill(~sees, -torch.inf).softmax(-1).mean(0)

    if not has_cls:
        return shares(scores, sees)
    full = torch.eye(len(tokens))
    if cls == "skip":
        full[1:, 1:] = shares(scores[:, 1:, 1:], sees)
        return full
    sees = nn.functional.pad(sees, (1, 0), value=True)  # everyone sees the class token
    full[1:] = shares(scores[:, 1:], sees)
    if cls == "global":
        full[0] = shares(scores[:, :1], torch.ones(1, len(tokens), dtype=torch.bool))[0]
    else:  # the mean of the copies, one for each different row of the mask
        rows = [shares(scores[:, :1], row[None])[0] for row in sees.unique(dim=0)]
        full[0] = torch.stack(rows).mean(0)
    return full
