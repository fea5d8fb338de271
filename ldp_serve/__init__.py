"""A server that takes reports over HTTP, keeps them on disk, and shows estimates. Needs the extra ``serve``.

docs/wire.md says what clients send, docs/serve.md how `ldp serve` runs it.
"""

from ldp_serve.app import LOOPBACK, Options, make_app, run
from ldp_serve.reading import KINDS, Reader
from ldp_serve.store import Batch, Store

__all__ = ["KINDS", "LOOPBACK", "Batch", "Options", "Reader", "Store", "make_app", "run"]
