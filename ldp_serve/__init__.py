"""A server that takes reports over HTTP, keeps them or hands them on, and shows estimates; of the extra ``serve``.

docs/wire.md says what clients send, docs/serve.md how `ldp serve` runs it.
"""

from ldp_serve.app import LOOPBACK, Options, make_app, run
from ldp_serve.queue import Queue
from ldp_serve.reading import KINDS, Reader
from ldp_serve.store import Batch, Sink, Store

__all__ = ["KINDS", "LOOPBACK", "Batch", "Options", "Queue", "Reader", "Sink", "Store", "make_app", "run"]
