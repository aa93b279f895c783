"""What commands that bring labels into a run or a ledger take: the inputs, their columns and format, known answers."""

from typing import Any

from pipelines.addresses import local
from pipelines.arguments import CommandParser
from pipelines.settings import INPUT_FORMATS


def add_input_options(parser: CommandParser, metavar: str, inputs: str) -> Any:
    """The group "input"; gives what adds further options to it. `inputs` says what the inputs are."""
    add = parser.add_argument_group("input").add_argument
    add("inputs", type=local, metavar=metavar, nargs="+", help=inputs)
    columns = "what task, worker, label, time and op are called in the inputs (default: the same)"
    add("--columns", metavar="FIELD=COLUMN,...", default="", help=columns)
    kinds = f"{', '.join(INPUT_FORMATS)} (default: auto, by the file's name)"
    add("--input-format", metavar="FORMAT", default="auto", help=kinds)
    gold = f"known answers, columns task and label, as {metavar}; may be given several times (default: none)"
    add("--gold", type=local, metavar="FILE", action="append", default=[], help=gold)
    return add
