"""Claiming folders: those that a stream writes to hold nothing else, and no other stream writes to them."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pipelines.errors import InvalidSettingError
from pipelines.inputs import SUFFIXES, ending_of
from pipelines.locking import LOCK, Lock, alone_in
from pipelines.run_folder import MANIFEST
from pipelines.sinks.folder import IntervalFolder
from pipelines.sinks.interval_files import MANIFESTS
from pipelines.sinks.targets import sink_of
from pipelines.sources.storage import is_local
from pipelines.streaming.control import OWNER, Control, read_json
from pipelines.streaming.flink_jobs import has_ended_on_flink
from pipelines.streaming.settings import StreamSettings
from schemas import TABLES

_WRITTEN = (*TABLES, MANIFESTS, LOCK)
_CROWD = ("truth.csv", "labels")


def refuse_occupied(settings: StreamSettings) -> None:
    """Raises `InvalidSettingError` when a folder to write to holds something else; nothing is made.

    Folders elsewhere than on this machine are not looked into.
    """
    places = (settings.source, *settings.sinks, settings.rejects, settings.control, settings.bootstrap)
    own = [Path(os.path.realpath(place.removeprefix("file://"))) for place in places if place and is_local(place)]
    for option, folder in sink_folders(settings):
        what = _finished(folder) or _foreign(folder, own)
        _refuse(option, folder, what)
    if is_local(settings.control):
        folder = settings.control.removeprefix("file://")
        _refuse("--control", folder, _finished(folder) or _labels(folder))


@contextmanager
def claimed(settings: StreamSettings) -> Iterator[None]:
    """Makes the folders that rows go to and keeps other streams out while the body runs.

    Raises `InvalidSettingError` when one is at work in one of them. Folders elsewhere are not locked, nor
    those of a file system without locks. A folder is never removed: a job that outlives its command writes on.
    """
    folders = sink_folders(settings)
    for _, folder in folders:
        IntervalFolder(folder).check()
    with ExitStack() as locks:
        for option, folder in folders:

            def in_use(process: str, place: str = f"{option} {folder}") -> str:
                return f"A stream (process {process}) writes to {place}; stop it, or give another folder."

            locks.enter_context(alone_in(folder, Lock(option, LOCK, in_use, lambda: 0)))
        yield


def refuse_outlived(control: Control) -> None:
    """Raises `InvalidSettingError` when the job of an earlier command may still be at work in the folder.

    To be asked while the folder is held: then no command of this machine is.
    """
    known = read_json(control.path(OWNER))
    if known is None or not known["outlived"]:
        return
    name, address = known.get("job", ""), known.get("flink", "")
    if address and has_ended_on_flink(address, name):
        return
    raise InvalidSettingError(
        f"The job {name and name + ' '}of an earlier stream may still run in --control {control.folder}, without its "
        f"command. Have it end: `crowdbeam stream stop --control {control.folder}`, then cancel it in Flink; and "
        f"give another folder, or remove {control.path(OWNER)}."
    )


def sink_folders(settings: StreamSettings) -> list[tuple[str, str]]:
    """The folders of this machine that rows go to, each with its option."""
    texts = [*(("--sink", text) for text in settings.sinks), ("--rejects", settings.rejects)]
    targets = [(option, sink_of(text)) for option, text in texts if text]
    folders = [(option, target.path) for option, target in targets if isinstance(target, IntervalFolder)]
    return [(option, folder) for option, folder in folders if is_local(folder)]


def _refuse(option: str, folder: str, what: str) -> None:
    if what:
        raise InvalidSettingError(f"{option} {folder} holds {what}; give a folder of its own.")


def _finished(folder: str) -> str:
    """What somebody else has finished in the folder: a run, a crowd, or nothing."""
    names = _names(folder)
    if MANIFEST in names:
        return "a finished run"
    return "a simulated crowd" if set(_CROWD) <= set(names) else ""


def _foreign(folder: str, own: list[Path]) -> str:
    """The first thing in a sink that no stream wrote; hidden files, and places of this very stream, do not count."""
    for name in _names(folder):
        place = Path(os.path.realpath(folder), name)
        if name not in _WRITTEN and not name.startswith(".") and not any(one.is_relative_to(place) for one in own):
            return f"{name!r}, which no stream wrote"
    return ""


def _labels(folder: str) -> str:
    """A file in the folder that a batch would read."""
    files = [name for name in _names(folder) if ending_of(name) in SUFFIXES and not name.endswith(".json")]
    return f"labels, {files[0]!r}" if files else ""


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []  # missing, or no folder: told by whoever makes it
