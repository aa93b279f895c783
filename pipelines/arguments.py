"""Command-line arguments: told apart, checked, and refused with a sentence.

Options and inputs may stand in any order; a value may begin with a single dash; options that crowdbeam does not have
are for Beam, if Beam has them.
"""

import argparse
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from pipelines.errors import InvalidSettingError

# What argparse calls nargs: None for one value, 0 for none, "?" for one or none.
OptionTable = Mapping[str, Any]


class CommandParser(argparse.ArgumentParser):
    """An argument parser that knows no abbreviations and raises `InvalidSettingError` where argparse would exit."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_HelpFormatter, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Raises the sentence for what argparse found wrong."""
        raise InvalidSettingError(f"{message[:1].upper()}{message[1:]}. Try `{self.prog} --help`.")


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of description and epilog, and gives option names the room they need."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)


def option_table(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """How many values each option of `parser` takes.

    >>> parser = CommandParser(prog="crowdbeam", add_help=False)
    >>> _ = parser.add_argument("--json", action="store_true")
    >>> _ = parser.add_argument("--output")
    >>> option_table(parser)
    {'--json': 0, '--output': None}
    """
    return {name: action.nargs for action in parser._actions for name in action.option_strings}


@dataclass
class _Sorted:
    """Arguments told apart: crowdbeam's options, inputs, Beam's options."""

    own: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    beam: list[str] = field(default_factory=list)


def parse_arguments(
    parser: CommandParser, argv: Sequence[str], beam_options: Callable[[Sequence[str]], OptionTable] | None = None
) -> tuple[argparse.Namespace, list[str]]:
    """What `parser` makes of its share of `argv`, and the arguments that are for Beam.

    Args:
        parser: the command's.
        argv: the arguments after the command's name.
        beam_options: gives the options that Beam knows; called only if there is an option `parser` does not know.
    """
    table = option_table(parser)
    known_to_beam: OptionTable | None = None
    found = _Sorted()
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            found.inputs += rest
            break
        if word == "-" or not word.startswith("-"):
            found.inputs.append(word)
            continue
        name = word.partition("=")[0]
        if name in table:
            found.own += _with_value(word, table[name], rest)
            continue
        if known_to_beam is None:
            known_to_beam = beam_options(argv) if beam_options else {}
        if name not in known_to_beam:
            raise InvalidSettingError(_unknown(name, parser.prog, table, known_to_beam))
        found.beam += _with_value(word, known_to_beam[name], rest)
    return parser.parse_args([*found.own, "--", *found.inputs] if found.inputs else found.own), found.beam


def _with_value(word: str, nargs: Any, rest: list[str]) -> list[str]:
    """The option with its value as one argument; the value is taken from `rest`."""
    name, equals, _ = word.partition("=")
    if nargs == 0:
        if equals:
            raise InvalidSettingError(f"{name} takes no value; write {name} alone.")
        return [word]
    if equals:
        return [word]
    if rest and not rest[0].startswith("--" if nargs is None else "-"):
        return [f"{name}={rest.pop(0)}"]
    if nargs == "?":
        return [word]
    raise InvalidSettingError(f"{name} takes a value; write {name} VALUE.")


def _unknown(name: str, prog: str, own: OptionTable, beam: OptionTable) -> str:
    whose = "crowdbeam or Beam" if beam else prog
    near = difflib.get_close_matches(name, own, 1) or difflib.get_close_matches(name, beam, 1)
    hint = f"did you mean {near[0]}?" if near else f"`{prog} --help` lists them."
    return f"{name} is no option of {whose}; {hint}"


def whole_number(option: str) -> Callable[[str], int]:
    """Reads the value of `option` as an integer.

    >>> whole_number("--seed")("7")
    7
    """

    def read(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise InvalidSettingError(f"{option} is {text!r}; it takes a whole number.") from None

    return read


def number(option: str) -> Callable[[str], float]:
    """Reads the value of `option` as a number.

    >>> number("--confidence")(".95")
    0.95
    """

    def read(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise InvalidSettingError(f"{option} is {text!r}; it takes a number.") from None

    return read
