"""The stream's functions without Beam, in one thread: what the events cost at the least.

It reads a topic to its end, tracks, solves, answers and writes to a topic, with the same settings and rules as the
command, and prints what it took as JSON: ``python -m benchmarks.stream_floor BOOTSTRAP TOPIC PREFIX``.
"""

import json
import resource
import sys
import time

from pipelines.blocks import LabelBlock, split_block
from pipelines.sinks.kafka import KafkaTarget
from pipelines.sources.kafka import kafka_source_of
from pipelines.streaming.answering import AnswerBoard, AnswerRules
from pipelines.streaming.skill_keeping import SkillKeeper, SkillRules, Solution, solver_pool
from pipelines.streaming.tracking import TaskTracker, TrackRules


class Floor:
    """One reader, some shards, one keeper of the skills, one sink."""

    def __init__(self, bootstrap: str, topic: str, prefix: str, shards: int = 8, block: int = 50_000) -> None:
        self.reader = kafka_source_of(f"kafka://{bootstrap}/{topic}").reader(0)
        target = KafkaTarget(bootstrap, prefix)
        target.check()
        self.sink = target.open()
        self.shards, self.block = shards, block
        self.trackers = [TaskTracker(TrackRules()) for _ in range(shards)]
        self.boards = [AnswerBoard(AnswerRules()) for _ in range(shards)]
        self.keeper = SkillKeeper(SkillRules())
        self.pool = solver_pool()
        self.n_rows = 0

    def run(self) -> None:
        """Reads everything there is, then solves once more from scratch and answers everything."""
        position, more = b"", True
        while more:
            polled = self.reader.poll(position, self.block, 1.0)
            position, more = polled.position, bool(polled.blocks)
            for block in polled.blocks:
                self.take(block)
            self.solve(time.time())
        while self.keeper.busy:
            self.keeper.finished(time.time(), self.pool.submit, wait=True)
        self.solve(time.time(), settled=True)
        self.sink.flush()

    def take(self, block: LabelBlock) -> None:
        """Takes a block of events."""
        now = time.time()
        for shard, part in split_block(block, self.shards):
            tracked = self.trackers[shard].take(LabelBlock.from_bytes(part.to_bytes()))
            self.keeper.add(tracked.change, now)
            if tracked.kept is not None:
                self.write(self.boards[shard].take(LabelBlock.from_bytes(tracked.kept.to_bytes()), now))

    def solve(self, now: float, settled: bool = False) -> None:
        """Solves when it is due, and answers what that changes."""
        self.learn(self.keeper.finished(now, self.pool.submit), now)
        if self.keeper.due(now, at_once=settled):
            self.keeper.begin(now, self.pool.submit, settled)
        while settled and self.keeper.busy:
            self.learn(self.keeper.finished(now, self.pool.submit, wait=True), now)

    def learn(self, solution: Solution | None, now: float) -> None:
        """Takes a model, or the intervals that follow it."""
        if solution is not None and solution.skills is not None:
            for board in self.boards:
                self.write(board.learn(solution.skills, now))

    def write(self, table: object) -> None:
        """Writes rows."""
        if table is not None:
            self.n_rows += table.num_rows  # type: ignore[attr-defined]
            self.sink.write("scores", table)


def main(argv: list[str]) -> None:
    """Runs the floor and prints what it took."""
    floor = Floor(argv[0], argv[1], argv[2])
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    floor.run()
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    events = floor.keeper.ledger.n_events
    print(json.dumps({"events": events, "wall_s": wall, "cpu_s": cpu, "rows": floor.n_rows}))


if __name__ == "__main__":
    main(sys.argv[1:])
