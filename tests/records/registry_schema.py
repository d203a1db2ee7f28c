"""The schema of the deployments registry: its fields, types, lists and requirements, all of them.

From schemas/deployments-schema.yaml of the repository opendp/deployments-registry-data, at the commit below;
its descriptions are left out. The registry validates entries with the draft 7 of JSON Schema and checks the
formats (scripts/check.py there).
"""

from __future__ import annotations

from typing import Any

import jsonschema

COMMIT = "057e5d81cf60150dd3307e0cf4504b957802fb3b"
Schema = dict[str, Any]
TEXT, NUMBER, ANY = {"type": "string"}, {"type": "number"}, Schema()
TEXT_OR_NUMBER = {"anyOf": [TEXT, NUMBER]}


def _one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def _closed(*required: str, **properties: Schema) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


def _texts(names: str) -> dict[str, Schema]:
    return dict.fromkeys(names.split(), TEXT)


_CURATOR = {
    "type": "object",
    "required": ["data_curator_name", "data_curator_type"],
    "properties": {
        "data_curator_name": TEXT,
        "data_curator_type": _one_of("Government", "Industry", "Nonprofit"),
    },
}
_BASIC = _closed(
    "name",
    "data_curators",
    "description",
    "intended_use",
    "data_product_type",
    "data_product_region",
    "publication_date",
    **_texts("name description intended_use data_product_region"),
    data_curators={"type": "array", "items": _CURATOR, "minItems": 1},
    data_product_type=_one_of(
        *("Summary statistics", "Machine learning model", "Dataset"),
        *("Synthetic data", "Interactive API", "SQL queries"),
    ),
    data_product_sector=_one_of("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
    publication_date={"type": "string", "format": "date"},
)
_VARIANT = _closed(
    variant_name=_one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
    **_texts("data_domain unprotected_quantities"),
)
_LOSS = _closed(
    **_texts("privacy_unit privacy_unit_details"),
    number_of_privacy_units={"type": "integer"},
    privacy_parameters=_closed(epsilon=NUMBER, delta={"type": ["number", "string"]}, rho=NUMBER),
    privacy_parameters_details=ANY,
)
_MODEL = _closed(
    model_name=_one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
    release_type=_one_of("One release", "Many releases"),
    data_source_type=_one_of("Static", "Dynamic"),
    access_type=_one_of("Interactive", "Non-interactive"),
    actors=ANY,
    **_texts("model_name_details trust_assumptions release_type_details"),
    **_texts("data_source_type_details access_type_details"),
)
_IMPLEMENTATION = _closed(
    **_texts("preprocessing_and_hyperparameter_tuning mechanisms composition post_processing justification"),
    utility=ANY,
    additional_information=ANY,
)
_BIBLIOGRAPHY = _closed(
    **_texts("address annote author booktitle doi editor email howpublished institution journal note"),
    **_texts("organization publisher school type series title url"),
    **dict.fromkeys(_texts("chapter edition issn isbn month number pages volume year"), TEXT_OR_NUMBER),
)
_SOURCE_TYPE = _one_of(
    "Peer-reviewed publication",
    "Formal publication by the deploying organization",
    "Authorized organizational attestation",
    "Other public source",
)
_KINDS = (
    *("article", "book", "booklet", "conference", "inbook", "incollection", "inproceedings"),
    *("manual", "mastersthesis", "misc", "phdthesis", "proceedings", "techreport", "unpublished"),
)
_SOURCE = {"oneOf": [_closed(evidence_source_type=_SOURCE_TYPE, **{kind: _BIBLIOGRAPHY}) for kind in _KINDS]}
_ADMINISTRATIVE = _closed(
    "status",
    "registry_authors",
    "tier",
    evidence_sources={"type": "object", "patternProperties": {r"^\w+$": _SOURCE}},
    status=_one_of(
        *("Converted", "Draft", "Pending", "Changes Required", "Approved"),
        *("Approved (Update Requested)", "Approved (Pending)"),
    ),
    registry_authors={"type": "array", "items": TEXT, "minItems": 1},
    tier={"type": "integer", "enum": [1, 2, 3]},
)
SCHEMA = _closed(
    "url_slug",
    "deployment",
    url_slug=TEXT,
    deployment=_closed(
        "basic",
        "administrative",
        basic=_BASIC,
        dp_variant=_VARIANT,
        privacy_loss=_LOSS,
        deployment_model=_MODEL,
        implementation=_IMPLEMENTATION,
        administrative=_ADMINISTRATIVE,
    ),
)


def problems(entry: Any) -> list[str]:
    """What the registry's own check says of an entry: a line for each problem."""
    validator = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(entry)]
