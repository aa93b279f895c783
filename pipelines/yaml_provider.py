"""`AggregateLabels` for Beam YAML: settings by their names in the config, rows with a schema in and out.

A pipeline names it in its providers, as `examples/yaml/providers.yaml` does; docs/beam-yaml.md shows the rest.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

import apache_beam as beam
from apache_beam.typehints.row_type import RowTypeConstraint

import schemas
from pipelines import aggregate
from pipelines.errors import InvalidSettingError
from pipelines.prior import read_prior_skills
from pipelines.settings import AggregateSettings

_FIELDS: dict[str, Field[Any]] = {one.name: one for one in fields(AggregateSettings)}
_PRIOR_SKILLS = "prior_skills"
_LABELS = ("labels", "input")
_GOLD = "gold"


class AggregateLabels(beam.PTransform):
    """Turns label rows into answers, skills, edges and the graph's verdict.

    Input: rows with task, worker, label and, if known, submitted_at_us; or two inputs, called labels and gold, of which
    the second has rows with task and label, the known answers.
    Outputs: scores, skills, edges, graph and rejects, rows of the schemas of those names.

    Args:
        settings: the settings of `AggregateSettings` by their names, all of them optional: classes is a list of texts,
            class_prior a mapping from class to frequency; and prior_skills, a finished run or a file with the columns
            worker and skill.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        prior = settings.pop(_PRIOR_SKILLS, None) or ""
        if not isinstance(prior, str):
            raise InvalidSettingError(f"{_PRIOR_SKILLS} is {prior!r}; it takes the path of a run or of a file.")
        self._settings = settings_of(settings)
        self._prior_skills = read_prior_skills(prior)

    def expand(self, inputs: Any) -> dict[str, Any]:
        """Wires the steps."""
        labels, gold = _inputs_of(inputs)
        found = labels | "Aggregate" >> aggregate.AggregateLabels(self._settings, gold, self._prior_skills)
        return {
            name: found[name] | f"Type{name.capitalize()}" >> beam.Map(_row).with_output_types(row_type(record))
            for name, record in schemas.TABLES.items()
        }


def settings_of(config: Mapping[str, Any]) -> AggregateSettings:
    """The settings that a YAML config stands for; raises `InvalidSettingError` when they cannot be used.

    >>> settings_of({"classes": ["cat", "dog"], "min_labels": 2}).classes
    ('cat', 'dog')
    """
    for name in config:
        if name not in _FIELDS:
            near = difflib.get_close_matches(name, [*_FIELDS, _PRIOR_SKILLS], 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join([*_FIELDS, _PRIOR_SKILLS])}."
            raise InvalidSettingError(f"{name} is no setting of AggregateLabels; {hint}")
    given = {name: _value(name, value) for name, value in config.items() if value is not None}
    try:
        return AggregateSettings(**given)
    except InvalidSettingError as error:
        named = re.sub(r"--([a-z][a-z-]*)", lambda flag: flag[1].replace("-", "_"), str(error))
        raise InvalidSettingError(named) from error


def row_type(record: str) -> Any:
    """The type of the rows of the record called `record`, as Beam's schemas have it.

    >>> [name for name, _ in row_type("gold")._fields]
    ['task', 'label']
    """
    return RowTypeConstraint.from_fields(list(schemas.row_type(record).__annotations__.items()))


def _row(row: Any) -> beam.Row:
    return beam.Row(**row._asdict())


def _inputs_of(inputs: Any) -> tuple[Any, Any]:
    """The labels, and the gold answers or None."""
    if not isinstance(inputs, Mapping):
        return inputs, None
    rest = dict(inputs)
    labels = [rest.pop(name) for name in _LABELS if name in rest]
    gold = rest.pop(_GOLD, None)
    if len(labels) != 1 or rest:
        raise InvalidSettingError(
            f"AggregateLabels has the inputs {', '.join(sorted(inputs))}; it takes labels and, if there are known "
            f"answers, gold."
        )
    return labels[0], gold


def _value(name: str, value: Any) -> Any:
    """A value of the config as the setting `name` has it."""
    if name == "classes":
        return _texts(value)
    if name == "class_prior":
        return _shares(value)
    default = _FIELDS[name].default
    wanted = str if default is MISSING else type(default)
    takes = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = number and (wanted is float or isinstance(value, int)) if wanted in (int, float) else type(value) is wanted
    if not fits:
        raise InvalidSettingError(f"{name} is {value!r}; it takes {takes[wanted]}.")
    return wanted(value)


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not hasattr(value, "__iter__") or not all(isinstance(one, str) for one in value):
        raise InvalidSettingError(
            f"classes is {value!r}; it takes a list of texts. YAML reads yes, no and numbers as other things: "
            f'quote them, ["yes", "no"].'
        )
    return tuple(value)


def _shares(value: Any) -> tuple[tuple[str, float], ...]:
    pairs = value._asdict() if hasattr(value, "_asdict") else value  # an expansion service makes rows of mappings
    numbers = isinstance(pairs, Mapping) and all(
        isinstance(name, str) and isinstance(share, int | float) for name, share in pairs.items()
    )
    if not numbers:
        raise InvalidSettingError(
            f'class_prior is {value!r}; it takes a mapping from class to frequency, {{"yes": 0.2, "no": 0.8}}.'
        )
    return tuple((name, float(share)) for name, share in pairs.items())
