"""What a package beside the core may use, besides the public names: see `engine.py`."""

from ldp_core.arrays.arrow import (
    ARROW_TYPES,
    LISTS,
    PYTHON_TYPES,
    as_arrow,
    chosen,
    is_text,
    plain,
    stored,
    structs,
    taken,
)
from ldp_core.arrays.ipc import bytes_of, read_batch, spelled_out, write_batch
from ldp_core.arrays.parquet_batches import check_parquet, read_batches
from ldp_core.arrays.types import F64, I64, U64, Bools, of_floats, type_words
from ldp_core.auditing.result import table
from ldp_core.auditing.run import run_audit
from ldp_core.charts.drawing import HALF_WIDTH as HALF_CHART_WIDTH
from ldp_core.charts.drawing import WIDTH as CHART_WIDTH
from ldp_core.charts.drawing import Row as ChartRow
from ldp_core.charts.drawing import check_top, draw, draw_means, draw_windows, utc
from ldp_core.charts.drawing import is_cut as is_cut_chart
from ldp_core.charts.drawing import of_column as axis_of_column
from ldp_core.charts.drawing import row_of as chart_row_of
from ldp_core.charts.drawing import side_by_side as charts_side_by_side
from ldp_core.charts.drawing import stacked as stacked_charts
from ldp_core.charts.themes import CONFIGS as CHART_CONFIGS
from ldp_core.charts.themes import Chart, Theme, themed
from ldp_core.compute import kernels
from ldp_core.errors import disk_error, shown_once, warn_user
from ldp_core.estimates.base import ESTIMATES_KEY, Population, check_repeats
from ldp_core.estimates.base import OFFERS as ESTIMATES_OFFERED
from ldp_core.estimates.clusters import OR_PERSON, Persons, unsaid_repeats
from ldp_core.estimates.comparison import Compare, holm, p_values_of, unsaid_people
from ldp_core.estimates.comparison_of_persons import ComparePersons, Pairs, quantiles_of_persons
from ldp_core.estimates.consistency import Consistency
from ldp_core.estimates.histogram import ENTRY as HISTOGRAM_ENTRY
from ldp_core.estimates.mean import off_of
from ldp_core.estimates.moments import FIT_SCHEMA
from ldp_core.estimates.plausibility import collecting
from ldp_core.estimates.pooling import common_values, pooled, pooled_rows
from ldp_core.estimates.quantile_differences import CompareQuantiles
from ldp_core.estimates.ratios import added_sums, ratio_of, ratio_sums
from ldp_core.estimates.registry import Ask, asked_of, question_names, questions_of, view_of
from ldp_core.estimates.weights import QUANTILE_SCHEMA, reach_of_private
from ldp_core.exact.aes import aes, encrypt
from ldp_core.exact.composition import ChangeTimes, History, Spent, times
from ldp_core.exact.hashing import check_id_type, id_words
from ldp_core.exact.probability import float_above
from ldp_core.exact.transforms import count_numbers, some_groups
from ldp_core.extras import import_extra
from ldp_core.inputs.base import Inputs
from ldp_core.inputs.domain import Label, Unmatched
from ldp_core.lazy import attach
from ldp_core.limits import DEFAULT as DEFAULT_LIMITS
from ldp_core.limits import (
    DEPTH,
    JOURNALS,
    PARQUET,
    UNFINISHED,
    files_of,
    matching_files,
    of_folders,
    open_parquet,
    over,
    read_json,
    refuse_private_folders,
    replacing,
)
from ldp_core.mechanism import not_a_mechanism
from ldp_core.mechanisms.numbers.square_wave import Method as SquareWaveMethod
from ldp_core.mechanisms.oracles.unary_encoding import Variant as UnaryEncodingVariant
from ldp_core.noise.keyed import refuse_own
from ldp_core.parameters import check_integer, check_open, check_probability, taken_names
from ldp_core.plans.answered import NO_PERSONS, Margin, MarginEstimate, joint_of, margins, questions_and_margins
from ldp_core.plans.contents import enough_to_differ, refuse_private
from ldp_core.plans.drawn import DrawnColumn, DrawnColumns
from ldp_core.plans.explanation import contents as plan_contents
from ldp_core.plans.explanation import epsilon_above, outlook_of, promise, seed_warning, warn_of_seed
from ldp_core.plans.forms import DEAD_LETTERS, RESULTS, PlanTold, about
from ldp_core.plans.plan import METADATA_KEY, PLAN_WAYS, plan_of, refuse_keys, refuse_reports
from ldp_core.plans.provenance import NAME as REPORT_TYPE
from ldp_core.plans.provenance import (
    Made,
    canonical_once,
    check_made_by,
    describe,
    described_once,
    not_proved,
    warn_assumed,
)
from ldp_core.plans.recommend import KINDS as RECOMMENDED_KINDS
from ldp_core.plans.simulation import Simulation, apportioned, simulated, truth_of
from ldp_core.randomizer.declared import check_same, refuse_keys_in, refuse_reports_in
from ldp_core.reports import Native, Nullable, ReportFormat, Value
from ldp_core.simulated_counts import generator_of
from ldp_core.tables import SHARE, View, aligned, drawn_text_of, folded, in_percent, text_of, visible, visible_lines
from ldp_core.tally import check_same_mechanism
from ldp_core.windows import Window, seconds

__all__ = [
    "ARROW_TYPES",
    "CHART_CONFIGS",
    "CHART_WIDTH",
    "DEAD_LETTERS",
    "DEFAULT_LIMITS",
    "DEPTH",
    "ESTIMATES_KEY",
    "ESTIMATES_OFFERED",
    "F64",
    "FIT_SCHEMA",
    "HALF_CHART_WIDTH",
    "HISTOGRAM_ENTRY",
    "I64",
    "JOURNALS",
    "LISTS",
    "METADATA_KEY",
    "NO_PERSONS",
    "OR_PERSON",
    "PARQUET",
    "PLAN_WAYS",
    "PYTHON_TYPES",
    "QUANTILE_SCHEMA",
    "RECOMMENDED_KINDS",
    "REPORT_TYPE",
    "RESULTS",
    "SHARE",
    "U64",
    "UNFINISHED",
    "Ask",
    "Bools",
    "ChangeTimes",
    "Chart",
    "ChartRow",
    "Compare",
    "ComparePersons",
    "CompareQuantiles",
    "Consistency",
    "DrawnColumn",
    "DrawnColumns",
    "History",
    "Inputs",
    "Label",
    "Made",
    "Margin",
    "MarginEstimate",
    "Native",
    "Nullable",
    "Pairs",
    "Persons",
    "PlanTold",
    "Population",
    "ReportFormat",
    "Simulation",
    "Spent",
    "SquareWaveMethod",
    "Theme",
    "UnaryEncodingVariant",
    "Unmatched",
    "Value",
    "View",
    "Window",
    "about",
    "added_sums",
    "aes",
    "aligned",
    "apportioned",
    "as_arrow",
    "asked_of",
    "attach",
    "axis_of_column",
    "bytes_of",
    "canonical_once",
    "chart_row_of",
    "charts_side_by_side",
    "check_id_type",
    "check_integer",
    "check_made_by",
    "check_open",
    "check_parquet",
    "check_probability",
    "check_repeats",
    "check_same",
    "check_same_mechanism",
    "check_top",
    "chosen",
    "collecting",
    "common_values",
    "count_numbers",
    "describe",
    "described_once",
    "disk_error",
    "draw",
    "draw_means",
    "draw_windows",
    "drawn_text_of",
    "encrypt",
    "enough_to_differ",
    "epsilon_above",
    "files_of",
    "float_above",
    "folded",
    "generator_of",
    "holm",
    "id_words",
    "import_extra",
    "in_percent",
    "is_cut_chart",
    "is_text",
    "joint_of",
    "kernels",
    "margins",
    "matching_files",
    "not_a_mechanism",
    "not_proved",
    "of_floats",
    "of_folders",
    "off_of",
    "open_parquet",
    "outlook_of",
    "over",
    "p_values_of",
    "plain",
    "plan_contents",
    "plan_of",
    "pooled",
    "pooled_rows",
    "promise",
    "quantiles_of_persons",
    "question_names",
    "questions_and_margins",
    "questions_of",
    "ratio_of",
    "ratio_sums",
    "reach_of_private",
    "read_batch",
    "read_batches",
    "read_json",
    "refuse_keys",
    "refuse_keys_in",
    "refuse_own",
    "refuse_private",
    "refuse_private_folders",
    "refuse_reports",
    "refuse_reports_in",
    "replacing",
    "run_audit",
    "seconds",
    "seed_warning",
    "shown_once",
    "simulated",
    "some_groups",
    "spelled_out",
    "stacked_charts",
    "stored",
    "structs",
    "table",
    "taken",
    "taken_names",
    "text_of",
    "themed",
    "times",
    "truth_of",
    "type_words",
    "unsaid_people",
    "unsaid_repeats",
    "utc",
    "view_of",
    "visible",
    "visible_lines",
    "warn_assumed",
    "warn_of_seed",
    "warn_user",
    "write_batch",
]
