# SPDX-License-Identifier: Apache-2.0
"""In the place of PyTorch, where vla-eval's LIBERO imports it to change `torch.load`.

The installed LIBERO keeps its initial states in NumPy's format and never calls that function, so
two gigabytes need not be installed to have one more name.
"""

from __future__ import annotations


def load(*_arguments: object, **_options: object) -> object:
    """Raise: nothing here is in PyTorch's format."""
    raise NotImplementedError("this benchmark has no PyTorch, and LIBERO should not need it")
