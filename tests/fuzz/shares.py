"""The entry points, and of a thousand cases how many each gets: the cheap ones get more."""

SHARES = {
    "arrow_messages": 60,
    "polls_of_messages": 15,
    "coders_of_batches": 60,
    "ndjson_messages": 40,
    "watched_files": 25,
    "files_of_the_command": 25,
    "plans_in_parquet": 25,
    "tables_of_mechanisms": 140,
    "tables_of_plans": 100,
    "plans_in_metadata": 120,
    "plans_in_toml": 60,
    "metadata_of_types": 80,
    "typed_columns_of_polars": 20,
    "bytes_of_tallies": 90,
    "tables_of_tallies": 20,
    "tally_columns_of_polars": 15,
    "states_of_who_was_seen": 50,
    "kafka_marks": 20,
    "columns_of_any_type": 20,
    "batches_of_any_type": 15,
}
