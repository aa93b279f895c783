"""A stream of the command's own settings, in this process: the arguments, the plan, the source, the rules; no Beam."""

import contextlib
import os
from dataclasses import dataclass, field

from command_line import crowd_rows, run_command, write_rows
from in_process import Stream

from pipelines.arguments import parse_arguments
from pipelines.blocks import LabelBlock
from pipelines.commands.stream import build_parser, settings_of
from pipelines.streaming.ledger import Ledger
from pipelines.streaming.planning import plan_of
from pipelines.streaming.state_files import read_frame, state_path
from pipelines.tables import from_bytes

ROWS = crowd_rows()
HOUR_US, NOW_US = 3_600_000_000, 1_700_000_000_000_000


def option_folders(path):
    """Folders of events, each for some cases; the files are of a fixed time."""
    timed = [(*row, NOW_US + place) for place, row in enumerate(ROWS)]
    header = ("task", "worker", "label", "time")
    folder_of(path / "labels", header, timed)
    folder_of(path / "others", header, [(f"other-{task}", worker, label, at) for task, worker, label, at in timed])
    folder_of(path / "renamed", ("item", "worker", "label", "time"), timed)
    folder_of(path / "ahead", header, [*timed, ("late", "w0", "c0", NOW_US + 3 * HOUR_US)])
    folder_of(path / "seconds", header, [(*row, NOW_US // 1_000_000 + n) for n, row in enumerate(ROWS)])
    days = [("t", "w0", "c0", NOW_US), ("u", "w0", "c0", NOW_US + 2 * HOUR_US), ("t", "w1", "c1", NOW_US)]
    folder_of(path / "days", header, days[:1], days[1:2], days[2:])
    folder_of(path / "many", header, *([(f"t{number}", "w0", "c0", NOW_US)] for number in range(16)))
    write_rows(path / "prior.csv", ("worker", "skill"), [("w0", -0.5)])
    assert run_command("aggregate", path / "labels", "--output", path / "run").code == 0
    return path


def folder_of(path, header, *files):
    path.mkdir()
    for number, rows in enumerate(files):
        file = write_rows(path / f"{number}.csv", header, rows)
        os.utime(file, (NOW_US / 1e6 + 7200 * (number > 0), NOW_US / 1e6 + 7200 * (number > 0)))


def settings_for(words, control):
    """The settings that the words stand for."""
    args, _ = parse_arguments(build_parser(), [str(word) for word in words])
    return settings_of(args, args.control or str(control))


@dataclass
class OptionRun:
    """What a stream of these words does with all that its source holds now."""

    words: tuple
    control: object
    rejects: list = field(default_factory=list)
    counts: dict = field(default_factory=dict)
    blocks: list = field(default_factory=list)

    def __post_init__(self):
        self.settings = settings_for(self.words, self.control)
        self.plan = plan_of(self.settings)
        self.stream = Stream(self.plan.shards, self.plan.track, self.plan.skills, self.plan.answers)
        if self.plan.bootstrap:
            for number in range(self.plan.shards):
                block = LabelBlock.from_bytes(read_frame(state_path(self.plan.bootstrap, number)))
                if len(block):
                    self.stream.feed(block)
        for number in range(self.plan.source.n_readers):
            self._read(number)
        self.stream.tick(settled=True)
        for data in self.stream.rejects:
            self.rejects += from_bytes(data).to_pylist()

    def _read(self, number):
        with contextlib.closing(self.plan.source.reader(number)) as reader:
            position, more = b"", True
            while more:
                polled = reader.poll(position, self.plan.max_events, 0.0)
                position, more = polled.position, polled.more
                for block in polled.blocks:
                    self.blocks.append((number, len(block)))
                    self.stream.feed(block, number, polled.watermark_us)
                    self.stream.tick(0.0)
                for name, n in polled.counts.items():
                    self.counts[name] = self.counts.get(name, 0) + n
                for data in polled.rejects:
                    self.rejects += from_bytes(data).to_pylist()

    @property
    def scores(self):
        return self.stream.scores

    @property
    def skills(self):
        return {worker: row["skill"] for worker, row in self.stream.skills.items()}

    def ledger(self):
        found = Ledger()
        found.add(self.stream.keeper.ledger.to_bytes())
        return found


@dataclass
class OptionRuns:
    """Runs on the events in `folder`; those with the same words are done once."""

    folder: object
    places: object
    done: dict = field(default_factory=dict)

    def __call__(self, source, words):
        if (source, words) not in self.done:
            place = self.places.mktemp("run")
            start = ("--source", self.folder / source, "--sink", place / "sink")
            told = [str(word).replace("{}", str(self.folder)) for word in words]
            self.done[source, words] = OptionRun((*start, *told), place / "control")
        return self.done[source, words]

    def both(self, source, without, given):
        """The run without and the one with; they read the same, unless two sources are given."""
        sources = source if isinstance(source, tuple) else (source, source)
        return [self(one, words) for one, words in zip(sources, (without, given), strict=True)]


def answers(run, *names):
    """What a run says of its tasks."""
    return {
        task: [row[name] for name in names or ("label", "probability", "status")] for task, row in run.scores.items()
    }
