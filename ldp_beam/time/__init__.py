"""Event time: times of records, windows, triggers."""
