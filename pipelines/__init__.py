"""What is deployed from a checkout: the telemetry job, a Dataflow template, Beam YAML."""
