"""Attention kernels that feature fixation is compared with, registered as those of users are.

============  ==========================================================  ===========
name          weight of key j for query i, before normalization           cost
============  ==========================================================  ===========
cosformer     ``relu(q_i).relu(k_j) cos(pi/2 (i - j) / M)``               2 S d^2
performer     softmax in expectation, m random features                   S m d
linformer     softmax over R learned mixtures of the keys                 S R d
orthoformer   softmax through R landmarks among the queries               S R d
lara          softmax by importance sampling, R proposals                 S R d
============  ==========================================================  ===========

A config names this module in ``custom_imports``, as the rows of ``configs/papers`` do.
"""

from lab.papers.kernels import cosformer, lara, linformer, orthoformer, performer

__all__ = ["cosformer", "lara", "linformer", "orthoformer", "performer"]
