"""What commands for schedulers share: gates with exit codes, an account for a catalog of lineage, inputs left out."""

import sys
from collections.abc import Sequence

from pipelines.addresses import local
from pipelines.arguments import CommandParser
from pipelines.gates import KINDS, GateResult, codes_table, exit_code_of

NO_USABLE_LABEL = 3  # the exit code


def add_gate_options(parser: CommandParser) -> None:
    """The group "for schedulers"."""
    add = parser.add_argument_group("for schedulers").add_argument
    names = ", ".join(kind.form for kind in KINDS)
    gate = f"end with an exit code of its own if: {names}; in quotes; may be given several times (default: none)"
    add("--fail-if", metavar="GATE", action="append", default=[], help=gate)
    lineage = "write the run as an OpenLineage event, JSON, to this file (default: none)"
    add("--lineage", type=local, metavar="FILE", default="", help=lineage)


def tell_left_out(patterns: Sequence[str]) -> None:
    """Says on standard error what in folders of inputs is not read."""
    from pipelines.input_care import left_out

    for sentence in left_out(patterns):
        sys.stderr.write(f"crowdbeam: {sentence}\n")


def gate_codes() -> str:
    """The lines of --help that tell the exit codes of the gates.

    >>> print(gate_codes().splitlines()[-1])
       20  no-new-labels: no label changed anything
    """
    return "\n".join(f"{code:>5}  {form}: {trips}" for code, form, trips in codes_table())


def tell_gates(results: Sequence[GateResult], after: str) -> int:
    """Says on standard error which gates have tripped, each in a line that ends with `after`; gives the exit code."""
    for result in results:
        if result.tripped:
            sys.stderr.write(f"crowdbeam: {result.sentence} {after}\n")
    return exit_code_of(results)
