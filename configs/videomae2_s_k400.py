# VideoMAE v2-S/16, distilled from g on Kinetics-710, 16 frames, frame interval 4, Kinetics-400.
# Official zoo: top-1 83.7 with 5 x 3 views (not measured here).
_base_ = "./videomae_s_k400.py"
