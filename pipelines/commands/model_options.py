"""Options that commands share: how labels become skills and answers."""

import json
from argparse import Namespace
from typing import Any

from crowdcore.options import SOLVERS, STARTS, WEIGHTS
from pipelines.addresses import local
from pipelines.arguments import CommandParser, number, whole_number
from pipelines.errors import InvalidSettingError
from pipelines.settings import MODELS, MULTICLASS, AggregateSettings

_DEFAULTS = AggregateSettings()


def add_model_options(parser: CommandParser) -> None:
    """The group "model"."""
    add = parser.add_argument_group("model").add_argument
    model = f"what a worker is taken for: {', '.join(MODELS)}, one skill a worker (default: %(default)s)"
    add("--model", metavar="NAME", default=_DEFAULTS.model, help=model)
    weights = f"how a pair of workers counts by its N common tasks: {', '.join(WEIGHTS)} (default: %(default)s)"
    add("--weights", metavar="NAME", default=_DEFAULTS.weights, help=weights)
    saturation = "where saturating weights, N / (1 + N / saturation), level off (default: %(default)g)"
    add_number(add, "--saturation", "N", _DEFAULTS.saturation, saturation)
    rule = f"how votes add up with three classes or more: {', '.join(MULTICLASS)} (default: %(default)s)"
    add("--multiclass", metavar="RULE", default=_DEFAULTS.multiclass, help=rule)
    classes = """the classes, or a JSON list '["a,b", "c"]'; other labels are rejected (default: those seen)"""
    add("--classes", metavar="A,B,...", default="", help=classes)
    prior = "how frequent the classes of --classes are, or a JSON object (default: all alike)"
    add("--class-prior", metavar="A=P,B=P,...", default="", help=prior)
    skills = "skills known before: an earlier run, or a file with columns worker and skill (default: none)"
    add("--prior-skills", type=local, metavar="RUN|FILE", default="", help=skills)
    strength = "how much a known skill counts, in common tasks (default: %(default)g)"
    add_number(add, "--prior-strength", "N", _DEFAULTS.prior_strength, strength)
    solver = f"{', '.join(SOLVERS)}: the same minimum, fast or by the paper's update (default: %(default)s)"
    add("--solver", metavar="NAME", default=_DEFAULTS.solver, help=solver)
    start = f"where the solver starts: {', '.join(STARTS)}; auto tries several (default: %(default)s)"
    add("--start", metavar="NAME", default=_DEFAULTS.start, help=start)
    add_whole(add, "--seed", _DEFAULTS.seed, "the seed of the spectral and random starts (default: %(default)s)")
    confidence = "of the skills' intervals: how often they hold (default: %(default)g)"
    add_number(add, "--confidence", "P", _DEFAULTS.confidence, confidence)
    add("--probabilities", action="store_true", help="give each answer the probability of every class (default: no)")
    few = "tasks with fewer workers get the status too-few-labels (default: %(default)s)"
    add_whole(add, "--min-labels", _DEFAULTS.min_labels, few)


def add_number(add: Any, name: str, metavar: str, default: float, text: str) -> None:
    """An option that takes a number."""
    add(name, metavar=metavar, type=number(name), default=default, help=text)


def add_whole(add: Any, name: str, default: int, text: str) -> None:
    """An option that takes a whole number."""
    add(name, metavar="N", type=whole_number(name), default=default, help=text)


def aggregate_settings_of(args: Namespace, **others: Any) -> AggregateSettings:
    """The settings that the model's options stand for, and `others`."""
    return AggregateSettings(
        model=args.model,
        weights=args.weights,
        saturation=args.saturation,
        solver=args.solver,
        start=args.start,
        seed=args.seed,
        multiclass=args.multiclass,
        classes=parse_classes(args.classes),
        class_prior=parse_class_prior(args.class_prior),
        prior_strength=args.prior_strength,
        min_labels=args.min_labels,
        confidence=args.confidence,
        probabilities=args.probabilities,
        **others,
    )


def parse_classes(text: str) -> tuple[str, ...]:
    """Reads ``a,b`` or, for classes with commas, a JSON list.

    >>> parse_classes("yes, no"), parse_classes('["a,b", "c"]')
    (('yes', 'no'), ('a,b', 'c'))
    """
    if not text.strip():
        return ()
    names = _json(text, "--classes") if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidSettingError(f"""--classes is {text!r}; it takes A,B,... or a JSON list of texts, ["a,b", "c"].""")
    return tuple(names)


def parse_class_prior(text: str) -> tuple[tuple[str, float], ...]:
    """Reads ``a=.2,b=.8`` or, for classes with commas, a JSON object.

    >>> parse_class_prior("yes=.2, no=.8"), parse_class_prior('{"a,b": 0.2, "c": 0.8}')
    ((('yes', 0.2), ('no', 0.8)), (('a,b', 0.2), ('c', 0.8)))
    """
    if not text.strip():
        return ()
    if text.lstrip().startswith("{"):
        pairs = list(_json(text, "--class-prior").items())
    else:
        pairs = [(name.strip(), share) for name, _, share in (part.rpartition("=") for part in text.split(","))]
    try:
        return tuple((name, float(share)) for name, share in pairs)
    except (TypeError, ValueError):
        raise InvalidSettingError(
            f"--class-prior is {text!r}; it takes CLASS=FREQUENCY pairs, yes=0.2,no=0.8."
        ) from None


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidSettingError(f"{option} is {text!r}, which is not JSON: {error}.") from None
