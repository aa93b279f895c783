"""The folder of a ledger: its versions, which one holds, and how the next takes its place.

A ledger is a folder. Everything that a version adds is written under names of its own, which nobody looks at until the
file CURRENT, one line long, names the version: it is exchanged at once. What a run that was killed has left is of a
later version than CURRENT, and the next run removes it.
"""

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from pipelines.addresses import refuse_warehouse
from pipelines.errors import InvalidSettingError, RunError
from pipelines.ledger.version import DIGITS, FORMAT_VERSION, KeptFile, Version, name_of
from pipelines.locking import LOCK, Lock, alone_in
from pipelines.sources.storage import is_local
from pipelines.syncing import sync

CURRENT, VERSIONS = "CURRENT", "versions"
EVERYTHING = "-whole"  # what a run with everything is called, while it is loaded
FETCHED = "_fetched"  # inputs from warehouses, while a night lasts
_NEXT = f"{CURRENT}.new"
_OF_VERSIONS = ("labels", "edges", "workers", "inputs", "runs")
_PARTS = (*_OF_VERSIONS, VERSIONS, FETCHED)
_OF_THE_SYSTEM = ("lost+found",)
_ACCOUNT = re.compile(rf"(\d{{{DIGITS},}})\.json", re.ASCII)


class LedgerFolder:
    """The folder of a ledger."""

    def __init__(self, path: str) -> None:
        self.path = path

    def at(self, *names: str) -> str:
        """A path in the ledger."""
        return os.path.join(self.path, *names)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps others out who would change the ledger; raises `InvalidSettingError` when somebody is in.

        A new ledger that comes to no version is removed in the end: what was refused leaves nothing.
        """
        self._refuse_elsewhere()
        self._refuse_foreign()
        in_use = f"--ledger {self.path} is in use by another run (process {{}}). Wait for it to end."
        with alone_in(self.path, Lock("--ledger", CURRENT, in_use.format)):
            self.sweep()
            yield

    def current(self) -> Version | None:
        """The version that holds; None in a new ledger."""
        number = self.current_number()
        return self._held_version(number) if number else None

    def current_number(self) -> int:
        """The number of the version that holds, whether or not that can be read; 0 in a new ledger."""
        self._refuse_elsewhere()
        numbers = self.numbers()
        is_first_night = numbers == [1] and os.path.exists(self.at(_NEXT))  # at work, or killed: see `publish`
        try:
            number = int(Path(self.at(CURRENT)).read_text("utf-8"))
        except FileNotFoundError:
            if numbers and not is_first_night:
                raise InvalidSettingError(
                    f"{self.at(CURRENT)} is missing, though there are versions. Restore it: it holds the number of the "
                    f"version that counts, the last one is {numbers[-1]}."
                ) from None
            return 0
        except OSError as error:
            raise RunError(f"{self.at(CURRENT)} cannot be read: {error.strerror}.") from error
        except ValueError:
            number = 0
        if number < 1:
            raise RunError(f"{self.at(CURRENT)} holds no number of a version. {self._way_out()}")
        return number

    def existing(self) -> Version:
        """The version that holds; raises `InvalidSettingError` when there is no ledger."""
        return self._held_version(self.existing_number())

    def held(self) -> tuple[int, str]:
        """The number of the version that holds, 0 when it cannot be told; and why it cannot be read, or nothing."""
        number = 0
        try:
            number = self.existing_number()
            self._held_version(number)
        except RunError as error:
            return number, str(error)
        return number, ""

    def _held_version(self, number: int) -> Version:
        if number not in self.numbers():
            raise RunError(f"{self.at(CURRENT)} names version {number}, which is missing. {self._way_out()}")
        return self.version(number)

    def _way_out(self) -> str:
        kept = ", ".join(map(str, self.numbers()))
        if not kept:
            return "No version is left: restore the ledger from a backup."
        return f"Go back to a version that is kept ({kept}): crowdbeam ledger rollback {self.path} --to N."

    def existing_number(self) -> int:
        """Its number; raises `InvalidSettingError` when there is no ledger."""
        number = self.current_number()
        if not number:
            raise InvalidSettingError(f"{self.path} holds no ledger. Give the folder of --ledger of crowdbeam nightly.")
        return number

    def version(self, number: int) -> Version:
        """One of the versions that are kept."""
        path = self._account(number)
        try:
            found = json.loads(Path(path).read_text("utf-8"))
            if found.get("format_version", 0) > FORMAT_VERSION:
                known = f"format {found['format_version']}; this one knows {FORMAT_VERSION}"
                raise InvalidSettingError(f"{self.path} was written by a newer crowdbeam ({known}). Upgrade crowdbeam.")
            return Version.from_json(found)
        except FileNotFoundError:
            kept = ", ".join(map(str, self.numbers())) or "none"
            raise InvalidSettingError(f"{self.path} has no version {number}; it has {kept}.") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{path} cannot be read: {error}. Go back to another version: crowdbeam ledger rollback."
            ) from error

    def _account(self, number: int) -> str:
        return self.at(VERSIONS, f"{name_of(number)}.json")

    def ancestors(self, version: Version) -> Iterator[Version]:
        """The version and those that led to it, as far as they are kept and can be read."""
        with suppress(RunError):
            yield version
            while version.parent and version.parent in self.numbers():
                version = self.version(version.parent)
                yield version

    def numbers(self) -> list[int]:
        """The versions that are kept, in order; what else lies beside them is nobody's concern."""
        try:
            found = map(_ACCOUNT.fullmatch, os.listdir(self.at(VERSIONS)))
        except FileNotFoundError:
            return []
        return sorted(int(one[1]) for one in found if one)

    def write(self, path: str, data: bytes) -> KeptFile:
        """Writes a file of the next version, durably."""
        place = self.at(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync(os.path.dirname(place))
        return KeptFile(path, len(data), digest_of(data))

    def publish(self, version: Version, keep: int) -> None:
        """Makes `version` the one that holds; so many are kept, itself included.

        All that it needs is on the disk before: its run too, from which warehouses are loaded. The next pointer is
        there before the version: a version with neither pointer was published, and has lost its own.
        """
        if version.run:
            _sync_all(self.at(version.run))
        for part in _PARTS:
            if os.path.isdir(self.at(part)):
                sync(self.at(part))
        version = replace(version, oldest=[*self.numbers(), version.number][-keep:][0])
        text = json.dumps(asdict(version), ensure_ascii=False, indent=1)
        self.write(_NEXT, f"{version.number}\n".encode())
        self.write(os.path.join(VERSIONS, f"{name_of(version.number)}.json"), text.encode())
        os.replace(self.at(_NEXT), self.at(CURRENT))
        sync(self.path)
        self.forget_versions(version.oldest)

    def forget_versions(self, oldest: int) -> None:
        """Removes the versions before `oldest`, and every file that no later one needs."""
        numbers = self.numbers()
        old = [number for number in numbers if number < oldest]
        if not old:
            return
        try:
            stays = [self.version(number) for number in numbers[len(old) :]]
        except RunError:  # what a damaged account needs is not known: nothing goes until that version does
            return
        needed = {one.path for version in stays for one in version.files()} | {version.run for version in stays}
        for part in _OF_VERSIONS:
            self._keep_only(needed, part)
        for number in old:
            _remove(self._account(number))

    def _keep_only(self, needed: Set[str], folder: str) -> None:
        """Removes what is in a folder of the ledger and not needed: also what a damaged account does not tell of."""
        around = {os.path.dirname(path) for path in needed}
        for name in os.listdir(self.at(folder)) if os.path.isdir(self.at(folder)) else ():
            path = os.path.join(folder, name)
            if path in around:
                self._keep_only(needed, path)
            elif path not in needed:
                _remove(self.at(path))

    def new_id(self) -> str:
        """The id of a new ledger."""
        return uuid.uuid4().hex

    def _refuse_elsewhere(self) -> None:
        refuse_warehouse(
            self.path, "The ledger", "Give a folder as the ledger, and {} as --output of crowdbeam nightly."
        )
        if not is_local(self.path):
            raise InvalidSettingError(f"The ledger {self.path} is not on this machine; give a folder of this machine.")
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise InvalidSettingError(f"The ledger {self.path} is a file; give a folder.")

    def _refuse_foreign(self) -> None:
        """A folder with other things in it is no ledger."""
        try:
            names = set(os.listdir(self.path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise InvalidSettingError(f"--ledger {self.path} cannot be used: {error.strerror}.") from error
        names = {name for name in names if not name.startswith(".") and name not in _OF_THE_SYSTEM}
        advice = "Remove it" if CURRENT in names else "Give an empty or a new folder"
        strange = sorted(names - {CURRENT, _NEXT, LOCK, *_PARTS})
        if strange:
            raise InvalidSettingError(f"--ledger {self.path} holds {strange[0]!r}, which no ledger has. {advice}.")

    def sweep(self) -> None:
        """Removes what runs that were killed, or refused by a gate, have left."""
        try:
            last = self.current_number()
        except RunError:  # nobody knows what is left over
            return
        for part in (*_OF_VERSIONS, FETCHED):
            for name in os.listdir(self.at(part)) if os.path.isdir(self.at(part)) else ():
                is_older = name[:DIGITS].isdecimal() and int(name[:DIGITS]) <= last
                if not is_older or name.endswith(EVERYTHING):
                    _remove(self.at(part, name))
        for number in self.numbers():
            if number > last:
                _remove(self._account(number))
        _remove(self.at(_NEXT))  # last: until then it tells whose a version without a pointer is
        if last:
            with suppress(RunError):  # a damaged version: who needs it will say so, and rollback does not
                self.forget_versions(self._held_version(last).oldest)


def refuse_inside(output: str, ledger: str, flag: str = "--output") -> None:
    """Raises `InvalidSettingError` when a place to write to is in a ledger's folder."""
    if not output or not is_local(output):
        return
    inside, around = os.path.realpath(output), os.path.realpath(ledger)
    if os.path.commonpath([inside, around]) == around:
        raise InvalidSettingError(f"{flag} {output} lies in the ledger {ledger}; give another place.")


def digest_of(data: bytes) -> str:
    """The checksum of a file's content, as `checksum_of` gives it for the file."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _sync_all(folder: str) -> None:
    """Has the system write down a folder and all that is in it."""
    for path, _, names in os.walk(folder):
        for name in (*names, ""):
            sync(os.path.join(path, name))


def _remove(path: str) -> None:
    """Removes a file, or a folder with all that is in it, if there is one."""
    if os.path.isdir(path):
        shutil.rmtree(path)
        return
    with suppress(FileNotFoundError):
        os.remove(path)
