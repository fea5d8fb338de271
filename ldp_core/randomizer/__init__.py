"""What every mechanism does, a job in a file: see `ldp_core.mechanism.Mechanism`, which has all of them."""
