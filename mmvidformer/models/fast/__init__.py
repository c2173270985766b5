"""Passes over a model: what it computes, in less time.

The layers and models are the plain ones, which say what is computed. A pass replaces the forward
method of some modules in place; weights and their names stay. Those for inference change a copy.

===================  ===============================================================================
module               what it saves
===================  ===============================================================================
``kept_rows``        updates that stochastic depth drops, in training on a CPU
``folded_fc``        one of two linear layers in a row, in training
``prefix_only``      places that nothing reads, in the last block
``regrouped_once``   operators: queries, keys and values are regrouped as one tensor
``onednn``           time of linear layers, which multiply in oneDNN, on a CPU
``cpu_attention``    time of attention in bfloat16, by matrix products, on a CPU
``flex``             masks of all pairs and scores in memory, on a GPU
``compiled_blocks``  a compiled graph for each block
``recompute``        memory: what the backward pass computes or copies again
``training``         all exact ones for training
``inference``        all for inference: folded layers, no dropout
``shared_frames``    frames that several clips share
``run_lengths``      tubelets that stand still (``run_rules``: for which models); inexact for most
``token_dropping``   tokens of a clip in training; inexact
``int8``             products in 8 bits, on a CPU; inexact
===================  ===============================================================================
"""
