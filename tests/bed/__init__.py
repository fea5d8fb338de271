"""Tools for trying the jobs on one machine: not deployed, and not in the wheel; they run from a checkout of the source.

``live``: devices, a message server and a streaming pipeline (``python -m pipelines.telemetry --live``).
``engines``: what brings it messages and runs it. ``fleet``: the simulated devices. ``pubsub``, ``kafka``: servers.
``runner``: Beam's local runner for streams without an end. ``flink``: a cluster (``python -m tests.bed.flink``).
"""
