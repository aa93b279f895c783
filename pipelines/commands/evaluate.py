"""`crowdbeam evaluate`: the answers of a run against the truth, with majority vote beside them."""

import json
import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.addresses import local
from pipelines.arguments import CommandParser
from pipelines.errors import InvalidSettingError
from pipelines.settings import parse_columns
from pipelines.terminal import Block, Facts, Grid, Notes, show_blocks, shown, write_out

if TYPE_CHECKING:
    from pipelines.evaluation import Evaluation, SkillEvaluation

SUMMARY = "Compare the answers of a run with the truth, and with majority vote."
TAKES_BEAM_OPTIONS = False
_CLASSES_SHOWN = 20
_EPILOG = """\
examples:
  crowdbeam evaluate run --truth truth.csv
  crowdbeam evaluate run --truth answers.parquet --columns task=item_id,label=answer

Answers count as they are, ties by the run's own rule; tasks that gold answered
are left out. Majority vote is worked out from the labels the run read, by the
run's columns, classes and repeats: the exact expectation over its ties.
"""


def build_parser() -> CommandParser:
    """What the command takes."""
    parser = CommandParser(
        prog="crowdbeam evaluate",
        usage="crowdbeam evaluate RUN --truth FILE [options]",
        description=SUMMARY,
        epilog=_EPILOG,
    )
    add = parser.add_argument_group("input").add_argument
    add("run", type=local, metavar="RUN", help="the folder of a finished run")
    add(
        "--truth",
        type=local,
        metavar="FILE",
        required=True,
        help="the true answers, columns task and label, in any format",
    )
    columns = "what task and label are called in --truth (default: the same)"
    add("--columns", metavar="FIELD=COLUMN,...", default="", help=columns)
    skills = "the true skills, columns worker and skill, as simulate writes them (default: none)"
    add("--skills", type=local, metavar="FILE", default="", help=skills)
    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="print one JSON object, for machines, and nothing else (default: tables)")
    return parser


def run(args: Namespace, beam_args: Sequence[str]) -> int:
    """Compares, and shows what was found."""
    columns = dict(parse_columns(args.columns))
    if not columns.keys() <= {"task", "label"}:
        raise InvalidSettingError(f"--columns is {args.columns!r}; it takes task=COLUMN and label=COLUMN.")
    from pipelines import evaluation
    from pipelines.run_tables import read_manifest
    from pipelines.truth import read_true_skills, read_truth

    manifest = read_manifest(args.run)
    answers = evaluation.match_answers(args.run, manifest, read_truth(args.truth, columns))
    found = evaluation.evaluate_answers(answers)
    skills = evaluation.evaluate_skills(args.run, manifest, read_true_skills(args.skills)) if args.skills else None
    why_not = evaluation.missing_inputs(manifest)
    majority = None if why_not else evaluation.majority_error(manifest, answers)
    if args.json:
        write_out(json.dumps(_as_json(args.run, found, majority, skills), ensure_ascii=False))
    else:
        show_blocks(list(_blocks(args.run, found, majority, why_not, skills)))
    return 0


def _blocks(
    run: str, found: "Evaluation", majority: float | None, why_not: str, skills: "SkillEvaluation | None"
) -> Iterator[Block]:
    answers, table = found.answers, found.calibration
    over = "the classes" if answers.probability_of_truth is not None else "right or wrong"
    rows = [
        ("tasks compared", f"{len(answers.task):,}"),
        ("error of the answers", _share(found.error)),
        ("error of majority vote", "unknown" if majority is None else _share(majority)),
        (f"log loss, over {over}", f"{found.log_loss:.4f}"),
        ("expected calibration error", f"{table.expected_error:.4f}"),
        ("tasks without truth", f"{answers.n_without_truth:,}"),
        ("truth without task", f"{answers.n_without_task:,}"),
    ]
    if answers.n_gold:
        rows.append(("tasks left out, answered by gold", f"{answers.n_gold:,}"))
    yield Facts(f"{run} against the truth", tuple(rows))
    if why_not:
        yield Notes("Note", (f"Majority vote cannot be worked out: {why_not}",))
    yield _class_grid(found)
    yield _calibration_grid(found)
    if skills:
        yield Facts(
            "Skills against the true ones",
            (
                ("workers compared", f"{skills.n_workers:,}"),
                ("mean absolute error", f"{skills.mean_absolute_error:.4f}"),
                (
                    f"{100 * skills.confidence:.3g} % intervals that hold the true skill",
                    f"{100 * skills.coverage:.1f} %",
                ),
            ),
        )


def _class_grid(found: "Evaluation") -> Grid:
    names, table = found.answers.classes, found.per_class
    order = sorted(range(len(names)), key=lambda place: (-int(table.support[place]), names[place]))
    chosen = sorted(order[:_CLASSES_SHOWN], key=lambda place: names[place])
    return Grid(
        "Classes" if len(names) <= _CLASSES_SHOWN else f"The {_CLASSES_SHOWN} most frequent of {len(names):,} classes",
        ("class", "precision", "recall", "f1", "support"),
        tuple(
            (
                shown(names[place]),
                *(_decimal(column[place]) for column in (table.precision, table.recall, table.f1)),
                f"{table.support[place]:,}",
            )
            for place in chosen
        ),
    )


def _calibration_grid(found: "Evaluation") -> Grid:
    table = found.calibration
    return Grid(
        "Calibration: how often answers of a probability are right",
        ("probability", "answers", "mean probability", "share right"),
        tuple(
            (f"{low:.1f} to {high:.1f}", f"{n:,}", _decimal(claimed), _decimal(right))
            for low, high, n, claimed, right in zip(
                table.low, table.high, table.n, table.mean_probability, table.share_correct, strict=True
            )
            if n
        ),
    )


def _as_json(run: str, found: "Evaluation", majority: float | None, skills: "SkillEvaluation | None") -> dict[str, Any]:
    answers, table, classes = found.answers, found.calibration, found.per_class
    return {
        "path": run,
        "tasks_compared": len(answers.task),
        "tasks_answered_by_gold": answers.n_gold,
        "tasks_without_truth": answers.n_without_truth,
        "truth_without_task": answers.n_without_task,
        "error": found.error,
        "majority_error": majority,
        "log_loss": found.log_loss,
        "log_loss_over": "answer" if answers.probability_of_truth is None else "classes",
        "expected_calibration_error": table.expected_error,
        "calibration": [
            {"low": low, "high": high, "n": n, "mean_probability": _or_none(claimed), "share_correct": _or_none(right)}
            for low, high, n, claimed, right in zip(
                table.low.tolist(), table.high.tolist(), table.n.tolist(),
                table.mean_probability.tolist(), table.share_correct.tolist(), strict=True,
            )
        ],
        "classes": [
            {"label": name, "precision": _or_none(p), "recall": _or_none(r), "f1": _or_none(f1), "support": n}
            for name, p, r, f1, n in zip(
                answers.classes, classes.precision.tolist(), classes.recall.tolist(), classes.f1.tolist(),
                classes.support.tolist(), strict=True,
            )
        ],
        "skills": skills and vars(skills),
    }  # fmt: skip


def _share(value: float) -> str:
    return f"{100 * value:.2f} %"


def _decimal(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
