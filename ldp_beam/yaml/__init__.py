"""The transforms for Beam YAML: plain arguments in, rows with a schema out; listed in ``providers.yaml``.

Each is a transform of Python, whose options and descriptions it has. Whatever is wrong with the arguments, or does not
fit the schema of the rows, is an error before anything runs.
"""

from pathlib import Path

from ldp_beam.estimates.comparing import Compare
from ldp_beam.estimates.transforms import Estimate, Histogram, PrivateHistogram, PrivateTable, Table
from ldp_beam.io.estimates import WriteEstimates
from ldp_beam.io.files import ReadCsv, ReadNdjson, ReadParquet
from ldp_beam.persons.transforms import BoundContributions, Deduplicate, PrivacyLedger
from ldp_beam.perturb import Perturb
from ldp_beam.yaml._adapter import adapted

PROVIDERS = Path(__file__).with_name("providers.yaml")  # what to ``include`` in a pipeline's ``providers``

LdpReadCsv = adapted(ReadCsv)
LdpReadNdjson = adapted(ReadNdjson)
LdpReadParquet = adapted(ReadParquet)
LdpWriteEstimates = adapted(WriteEstimates)
LdpPerturb = adapted(Perturb)
LdpEstimate = adapted(Estimate, question="ask")
LdpHistogram = adapted(Histogram)
LdpPrivateHistogram = adapted(PrivateHistogram)
LdpTable = adapted(Table)
LdpPrivateTable = adapted(PrivateTable)
LdpCompare = adapted(Compare)
LdpBoundContributions = adapted(BoundContributions)
LdpDeduplicate = adapted(Deduplicate)
LdpPrivacyLedger = adapted(PrivacyLedger, plan_or_epsilon="plan")
