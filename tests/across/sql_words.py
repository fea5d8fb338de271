"""Words that no table may have as the name of a column: a query that has one unquoted is a syntax error.

DuckDB: https://duckdb.org/docs/stable/sql/dialect/keywords_and_identifiers, `duckdb_keywords()` of version 2.0, the
categories "reserved" and "type_function". PostgreSQL 17: Appendix C, "reserved", also those that "can be function or
type". BigQuery: "Lexical structure and syntax", reserved keywords.
"""

DUCKDB = """
all analyze analyze and any array as asc asymmetric both case cast check collate column constraint create default
deferrable desc describe distinct do else end except false fetch for foreign from group having in initially
intersect into lambda lateral leading limit not null offset on only or order pivot pivot_longer pivot_wider placing
primary qualify references returning select show some summarize symmetric table then to trailing true union unique
unpivot using variadic when where window with anti asof at authorization binary by collation columns concurrently
cross freeze full generated glob ilike inner is isnull join left like map natural notnull outer overlaps positional
right semi similar struct tablesample try_cast tuple unpack verbose
"""
POSTGRESQL = """
all analyze analyze and any array as asc asymmetric both case cast check collate column constraint create
current_catalog current_date current_role current_time current_timestamp current_user default deferrable desc
distinct do else end except false fetch for foreign from grant group having in initially intersect into lateral
leading limit localtime localtimestamp not null offset on only or order placing primary references returning select
session_user some symmetric system_user table then to trailing true union unique user using variadic when where
window with authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull join
left like natural notnull outer overlaps right similar tablesample verbose
"""
BIGQUERY = """
all and any array as asc assert_rows_modified at between by case cast collate contains create cross cube current
default define desc distinct else end enum escape except exclude exists extract false fetch following for from full
group grouping groups hash having if ignore in inner intersect interval into is join lateral left like limit lookup
merge natural new no not null nulls of on or order outer over partition preceding proto qualify range recursive
respect right rollup rows select set some struct tablesample then to treat true unbounded union unnest using when
where window with within
"""
RESERVED = frozenset(" ".join((DUCKDB, POSTGRESQL, BIGQUERY)).split())
