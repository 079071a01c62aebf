"""A few operations in C, compiled where the processor and a compiler for them are at hand (ENG-016, ENG-028).

torch has no kernel that reads codes of 4 bits once for several rows, its integer kernels cost more than the product
where a matrix is small, and what it does with two rows has other bits than with one. `products.c` and `attention.c`
have all three; without them (no compiler, another processor) torch's own operations serve.
"""

from tandem.engine.native.functions import FEW, Native, native
from tandem.engine.native.nibbles import GROUP, GROUP_BYTES, packed, unpacked

__all__ = ["FEW", "GROUP", "GROUP_BYTES", "Native", "native", "packed", "unpacked"]
