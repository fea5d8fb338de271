"""What comes in and goes out: batches and single records, windows, ids, rows, coders, faults."""
