"""Actions of a command: an option of one is refused with another, for it would do nothing there."""

from argparse import Namespace
from collections.abc import Mapping, Sequence

from pipelines.arguments import CommandParser
from pipelines.errors import InvalidSettingError


def refuse_other_options(parser: CommandParser, args: Namespace, actions_of: Mapping[str, Sequence[str]]) -> None:
    """Raises `InvalidSettingError` for an option that does not belong to `args.action`.

    `actions_of` says to which actions an option belongs, by its name in `args`; those it does not name belong to all.

    >>> parser = CommandParser(prog="crowdbeam ledger")
    >>> _ = parser.add_argument("action")
    >>> _ = parser.add_argument("--to", type=int, default=0)
    >>> refuse_other_options(parser, parser.parse_args(["show", "--to", "3"]), {"to": ("rollback",)})
    Traceback (most recent call last):
        ...
    pipelines.errors.InvalidSettingError: --to is of rollback, not of show. Leave it out.
    """
    for option in parser._actions:
        actions = actions_of.get(option.dest, (args.action,))
        if args.action not in actions and getattr(args, option.dest) != option.default:
            flag = option.option_strings[-1]
            raise InvalidSettingError(f"{flag} is of {' and '.join(actions)}, not of {args.action}. Leave it out.")
