"""The stream's functions without Beam: one thread, a clock of one's own."""

from pipelines.blocks import LabelBlock, split_block
from pipelines.streaming.answering import AnswerBoard, AnswerRules
from pipelines.streaming.envelopes import pack_skills, unpack_skills
from pipelines.streaming.skill_keeping import SkillKeeper, SkillRules, solver_pool
from pipelines.streaming.tracking import TaskTracker, TrackRules


class Stream:
    """Feeds blocks to trackers, keeper and boards, and remembers the latest row of every id."""

    def __init__(self, shards=3, track=None, skills=None, answers=None):
        self.shards = shards
        self.track_rules, self.answer_rules = track or TrackRules(), answers or AnswerRules(emit_if=0.0)
        self.trackers = [TaskTracker(self.track_rules) for _ in range(shards)]
        self.boards = [AnswerBoard(self.answer_rules) for _ in range(shards)]
        self.skill_rules = skills or SkillRules()
        self.keeper = SkillKeeper(self.skill_rules)
        self.pool = solver_pool()
        self.now = 1000.0
        self.scores, self.skills, self.graph, self.rejects, self.n_rows = {}, {}, {}, [], 0
        self.solution = None

    def feed(self, block, reader=0, watermark_us=2**62):
        for number, part in split_block(block, self.shards):
            part = LabelBlock.from_bytes(part.to_bytes())
            tracker = self.trackers[number]
            tracker.heard(reader, watermark_us)
            tracked = tracker.take(part)
            self.keeper.add(tracked.change, self.now)
            if tracked.rejects is not None:
                self.rejects.append(tracked.rejects)
            if tracked.kept is not None:
                kept = LabelBlock.from_bytes(tracked.kept.to_bytes())
                self.see(self.boards[number].take(kept, self.now))
            if tracked.closing is not None:
                self.see(self.boards[number].close(tracked.closing, self.now))

    def tick(self, seconds=2.0, settled=False):
        """Lets time pass and a model be solved."""
        self.now += seconds
        if self.keeper.due(self.now, at_once=settled):
            self.keeper.begin(self.now, self.pool.submit, settled)
            while (solution := self.keeper.finished(self.now, self.pool.submit, wait=True)) is not None:
                self.learn(solution)

    def learn(self, solution):
        """Takes a part of a solution, as the sinks and the boards do."""
        self.solution = solution
        for row in solution.rows.to_pylist() if solution.rows is not None else ():
            assert self.skills.get(row["worker"], {"revision": 0})["revision"] < row["revision"]
            self.skills[row["worker"]] = row
        for row in solution.graph.to_pylist() if solution.graph is not None else ():
            self.graph[row["component"]] = row
        if solution.skills is not None:
            skills = unpack_skills(pack_skills(solution.skills))
            for board in self.boards:
                self.see(board.learn(skills, self.now))

    def see(self, table):
        """Takes rows as a sink does: the highest revision of each task holds."""
        for row in table.to_pylist(maps_as_pydicts="strict") if table is not None else ():
            self.n_rows += 1
            known = self.scores.get(row["task"])
            assert known is None or known["revision"] < row["revision"], "a revision that did not grow"
            self.scores[row["task"]] = row

    def rebuild(self, number):
        """What a crash does to one shard's tracker and board: only frames and notes are left."""
        tracker = self.trackers[number]
        note = tracker.note()
        self.trackers[number] = TaskTracker.of(self.track_rules, [tracker.to_bytes()], note)
        board = self.boards[number]
        self.boards[number] = AnswerBoard.of(self.answer_rules, [board.table.block()], board.revision)

    def checkpoint(self):
        """What a crash leaves of the stream; the sinks keep all."""
        trackers = [(tracker.to_bytes(), tracker.note()) for tracker in self.trackers]
        boards = [(board.table.block(), board.revision) for board in self.boards]
        return trackers, boards, (self.keeper.ledger.to_bytes(), self.keeper.version, self.keeper.revision)

    def roll_back(self, checkpoint):
        """Everything as it was at a checkpoint, but the sinks and the clock."""
        trackers, boards, (ledger, version, revision) = checkpoint
        self.now += 1.0
        self.trackers = [TaskTracker.of(self.track_rules, [frame], note) for frame, note in trackers]
        self.boards = [AnswerBoard.of(self.answer_rules, [block], revision) for block, revision in boards]
        self.keeper = SkillKeeper(self.skill_rules)
        self.keeper.add(ledger, self.now)
        self.keeper.version, self.keeper.revision = version, revision

    def components(self):
        """The graph as readers of a sink see it: rows of one revision, and none of components that are no more."""
        newest = max((row["revision"] for row in self.graph.values()), default=0)
        rows = [row for _, row in sorted(self.graph.items()) if row["revision"] == newest]
        return [row for row in rows if row["n_workers"]]

    def answers(self):
        return {task: row for task, row in self.scores.items() if row["status"] != "no-labels"}
