"""The Triton kernels. Each module offers the functions of the twin beside it, with the same arguments and, within a
stated bound, the same values. Only `tandem.engine.kernels.choice` imports this package, where Triton is wanted.

Under TRITON_INTERPRET=1, set before Triton is first imported, they run on CPU tensors: that is how they are tested
where no GPU is. A kernel's own arguments carry no types but `tl.constexpr`: Triton compiles annotations, and knows no
other of ours.
"""
