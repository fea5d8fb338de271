"""Tools for trying the jobs on one machine: not deployed, and not in the wheel; they run from a checkout of the source.

``live``: devices, a Pub/Sub server and a streaming pipeline in one process (``python -m pipelines.telemetry --live``).
``fleet``: the simulated devices. ``pubsub``: the server. ``flink``: a cluster (``python -m pipelines.local.flink``).
"""
