"""MMAction2 1.2's heads cannot handle scores in bfloat16.

Symptom: ``TypeError: Got unsupported ScalarType BFloat16`` in the first training step under
bfloat16 autocast, and in ``AccMetric`` when testing, because heads and metrics convert scores to
NumPy arrays, which have no such type. The repair converts half-precision scores to float32 between
a head's forward pass and its loss or prediction. Other scores are passed on as they are. A head
that cannot read what its backbone returns says so, with the names of both.
"""

import torch
from mmaction.models.heads import BaseHead
from mmaction.models.recognizers import BaseRecognizer

from mmvidformer.layers.scores import HeadDoesNotFit, explain_misfit, score


def _loss(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> dict:
    return head.loss_by_feat(score(head, feats, kwargs), data_samples)


def _predict(head: torch.nn.Module, feats: object, data_samples: list, **kwargs: object) -> list:
    return head.predict_by_feat(score(head, feats, kwargs), data_samples)


def _forward(self: BaseRecognizer, *args: object, **kwargs: object) -> object:
    try:
        return forward(self, *args, **kwargs)
    except HeadDoesNotFit as error:
        raise explain_misfit(self.backbone, error) from error


BaseHead.loss, BaseHead.predict = _loss, _predict
forward = BaseRecognizer.forward
BaseRecognizer.forward = _forward
