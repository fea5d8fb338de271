"""For all tests of Beam, and the examples in the docstrings of the package where they run beside them."""

from . import cheap_pipelines  # noqa: F401 (changes Beam when it is imported)
