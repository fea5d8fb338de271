"""What goes from step to step: batches and single records, ids, rows of estimates, coders, faults."""
