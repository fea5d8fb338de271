"""The transforms for Beam YAML; see `transforms.py`, and ``ldp_beam/yaml/providers.yaml`` for their names there."""

from ldp_beam.yaml.transforms import (
    PROVIDERS,
    LdpBoundContributions,
    LdpDeduplicate,
    LdpEstimate,
    LdpHistogram,
    LdpPerturb,
    LdpPrivacyLedger,
    LdpPrivateHistogram,
    LdpReadCsv,
    LdpReadParquet,
)

__all__ = [
    "PROVIDERS",
    "LdpBoundContributions",
    "LdpDeduplicate",
    "LdpEstimate",
    "LdpHistogram",
    "LdpPerturb",
    "LdpPrivacyLedger",
    "LdpPrivateHistogram",
    "LdpReadCsv",
    "LdpReadParquet",
]
