# Control for vivit_fe_motion: the average-pooling baseline on single frames (tubelets of one frame,
# temporal_depth 0), which cannot see motion and must stay near chance (25%).
# mmvidformer train vivit_avgpool_motion --procs 2
_base_ = "./vivit_fe_motion.py"

model = dict(backbone=dict(stem=dict(tubelet=(1, 16, 16)), temporal_depth=0))
