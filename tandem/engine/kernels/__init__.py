"""The engine's own operations, each a torch twin that defines its values and, for CUDA, a Triton kernel (ENG-028).

The twins are in `conv`, `delta`, `norms`, `pointwise`, `rotary`, `attention` and `linear`; `choice` says which of the
two serves.
"""
