"""Passes over a model: the same outputs and gradients in less time.

The layers and models are the plain ones, which say what is computed. A pass replaces the forward
method of some modules in place; weights and their names stay. Those for inference change a copy.

===================  ===============================================================================
module               what it saves
===================  ===============================================================================
``onednn``           linear layers that multiply in oneDNN, on a CPU
``int8``             products in 8 bits, on a CPU; outputs change by more than rounding
``compiled_blocks``  a compiled graph for each block
``inference``        all for inference: folded layers, dropout and places that nothing reads
===================  ===============================================================================
"""
