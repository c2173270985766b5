# Segments from saved features: ActionFormer's form of a head (Zhang, Wu and Li 2022), no backbone.
model = dict(
    type="mmvidformer.MultiViewRecognizer",
    backbone=dict(type="torch.nn.Identity"),
    cls_head=dict(type="mmvidformer.SegmentsHead", in_channels=768, hidden_dim=512, levels=6),
    data_preprocessor=dict(type="mmvidformer.VideoDataPreprocessor", mean=None, std=None),
)
