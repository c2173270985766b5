# ViViT-L/16x2, spatio-temporal attention (model 1), Kinetics-400. Paper Table 4: top-1 80.3
# (not measured here).
# mmvidformer train vivit_l_st_k400 --procs 8
_base_ = "./vivit_l_fe_k400.py"

model = dict(
    backbone=dict(
        scheme="spacetime",
        temporal_depth=4,  # the default; only the factorized encoder has it
        with_cp=True,
    )
)
