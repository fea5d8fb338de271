"""Where randomness comes from: fresh keystreams, and noise keyed by a secret and an id."""
