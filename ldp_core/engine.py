"""What the packages beside the core may use, besides its public names: `ldp_polars`, `ldp_beam`, and those above them.

The rule: a package of this project imports from `ldp_core` and from this module, and from no other module of the core.
A name that it needs gets a line in `engine.pyi`. So one file shows how the parts of this project hang together, and a
module of the core can move without a change in the other packages. **Users get no promise about these names**: they may
change in any release. The name of a module that is private (`_like_this.py`) is not handed on.
"""

from ldp_core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
