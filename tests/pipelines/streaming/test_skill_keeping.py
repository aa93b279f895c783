"""When skills are solved for, from where, and which rows of them are given again; by a clock of our own."""

from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
from histories import Event, block_of

from pipelines.solving import Solved
from pipelines.streaming.label_table import LabelTable
from pipelines.streaming.ledger import pack_change
from pipelines.streaming.skill_keeping import SkillKeeper, SkillRules

NOW = 1000.0


class Orders:
    """A pool that solves at once, or when told to, and takes as long as one says; it notes what was asked for."""

    def __init__(self, seconds=0.0):
        self.seconds, self.given, self.waiting = seconds, [], []

    def __call__(self, solve, order, rules):
        future = Future()
        if not isinstance(order, Solved):  # that is the second part of one
            self.given.append(order)
        future.set_result((solve(order, rules)[0], self.seconds))
        return future


class Crowd:
    """A table of labels whose changes go to a keeper."""

    def __init__(self, **rules):
        self.keeper = SkillKeeper(SkillRules(**{"skills_every_s": 0.0, **rules}))
        self.table, self.orders = LabelTable(), Orders()

    def say(self, now, *events):
        block = block_of([Event(*event) for event in events])
        change = self.table.change(self.table.apply(block))
        self.keeper.add(pack_change(change, self.table.workers, self.table.classes, len(events)), now)

    def solve(self, now, settled=False):
        """Both parts of a solution."""
        self.keeper.begin(now, self.orders, settled)
        first = self.keeper.finished(now, self.orders)
        return replace(self.keeper.finished(now, self.orders), skills=first.skills) if self.keeper.busy else first


def triangle(n_tasks=40, workers=("ann", "bob", "cem"), seed=0, time=1, tasks="t"):
    """Labels by which every skill is determined."""
    rng = np.random.default_rng(seed)
    return [
        (f"{tasks}{task}", worker, "yes" if rng.random() < 0.8 else "no", time)
        for task in range(n_tasks)
        for worker in workers
    ]


def skills_of(rows):
    return {} if rows is None else {row["worker"]: row["skill"] for row in rows.to_pylist()}


def test_nothing_is_due_before_the_first_label():
    keeper = SkillKeeper(SkillRules())
    assert not keeper.due(NOW)
    assert not keeper.due(NOW, at_once=True)
    assert keeper.is_settled


def test_the_first_labels_are_solved_at_once_and_the_next_when_solve_every_has_passed():
    crowd = Crowd(solve_every_s=2.0)
    crowd.say(NOW, *triangle())
    assert crowd.keeper.due(NOW)
    assert crowd.solve(NOW).skills.version == 1
    crowd.say(NOW + 0.5, *triangle(seed=1, time=2))
    assert not crowd.keeper.due(NOW + 1.9)
    assert crowd.keeper.due(NOW + 2.0)


def test_without_new_labels_nothing_is_solved_until_the_stream_settles():
    crowd = Crowd(solve_every_s=2.0, settle_after_s=5.0)
    crowd.say(NOW, *triangle())
    crowd.solve(NOW)
    assert not crowd.keeper.due(NOW + 4.9)
    assert crowd.keeper.due(NOW + 5.0)


def test_at_most_a_fifth_of_the_time_is_spent_on_solving():
    crowd = Crowd(solve_every_s=2.0, settle_after_s=100.0)
    crowd.orders.seconds = 1.5  # each of the two parts
    crowd.say(NOW, *triangle())
    crowd.solve(NOW)
    crowd.say(NOW + 3, *triangle(seed=1, time=2))
    assert not crowd.keeper.due(NOW + 14.9)
    assert crowd.keeper.due(NOW + 15.0)


def test_one_solution_is_under_way_at_a_time():
    crowd = Crowd()
    crowd.say(NOW, *triangle())
    crowd.keeper.begin(NOW, lambda *_: Future())
    crowd.say(NOW + 10, *triangle(seed=1, time=2))
    assert crowd.keeper.busy
    assert not crowd.keeper.due(NOW + 60, at_once=True)
    assert crowd.keeper.finished(NOW + 60, crowd.orders) is None


def test_after_a_while_without_labels_the_skills_are_solved_from_scratch_and_then_rest():
    crowd = Crowd(settle_after_s=5.0)
    crowd.say(NOW, *triangle())
    assert not crowd.solve(NOW).skills.settled
    solution = crowd.solve(NOW + 5)
    assert solution.skills.settled
    assert crowd.keeper.is_settled
    assert not crowd.keeper.due(NOW + 1000, at_once=True)


def test_a_settled_solution_that_labels_overtook_does_not_settle_the_stream():
    crowd = Crowd()
    crowd.say(NOW, *triangle())
    crowd.keeper.begin(NOW + 5, crowd.orders)
    crowd.say(NOW + 5.1, *triangle(seed=1, time=2))
    solution = crowd.keeper.finished(NOW + 5.2, crowd.orders)
    assert solution.skills.settled
    assert solution.skills.n_events < crowd.keeper.ledger.n_events
    assert crowd.keeper.finished(NOW + 5.3, crowd.orders).rows is not None
    assert not crowd.keeper.is_settled


def test_the_model_leaves_before_its_intervals_and_the_stream_settles_with_them():
    crowd = Crowd()
    crowd.say(NOW, *triangle())
    crowd.keeper.begin(NOW, crowd.orders, settled=True)
    first = crowd.keeper.finished(NOW + 1, crowd.orders)
    assert (first.skills.settled, first.rows, first.graph) == (True, None, None)
    assert crowd.keeper.busy
    assert not crowd.keeper.is_settled
    assert not crowd.keeper.due(NOW + 1, at_once=True)
    second = crowd.keeper.finished(NOW + 2, crowd.orders)
    assert second.skills is None
    assert skills_of(second.rows).keys() == {"ann", "bob", "cem"}
    assert second.rows["model_version"].to_pylist() == [first.skills.version] * 3
    assert second.graph is not None
    assert crowd.keeper.is_settled
    assert crowd.keeper.finished(NOW + 3, crowd.orders) is None


def test_solutions_start_from_the_last_one_but_settled_ones_do_not():
    crowd = Crowd()
    crowd.say(NOW, *triangle())
    first = crowd.solve(NOW)
    crowd.say(NOW + 1, *triangle(seed=1, workers=("ann", "bob", "dan"), tasks="u"))
    crowd.solve(NOW + 2)
    crowd.solve(NOW + 3, settled=True)
    cold, warm, settled = (order.start for order in crowd.orders.given)
    assert cold is None
    assert settled is None
    known = dict(zip(first.solved.fit.workers.tolist(), first.solved.fit.skills.tolist(), strict=True))
    assert warm[:3].tolist() == [known["ann"], known["bob"], known["cem"]]
    assert np.isnan(warm[3]), "nobody knows dan yet"


def test_a_skill_is_given_again_when_it_changes_by_more_than_emit_if():
    eager, lazy = Crowd(emit_if=0.0), Crowd(emit_if=2.0)
    for crowd in (eager, lazy):
        crowd.say(NOW, *triangle())
        assert skills_of(crowd.solve(NOW).rows).keys() == {"ann", "bob", "cem"}
        crowd.say(NOW + 1, *triangle(seed=1, time=2))
    assert skills_of(eager.solve(NOW + 2).rows).keys() == {"ann", "bob", "cem"}
    assert skills_of(lazy.solve(NOW + 2).rows) == {}
    assert skills_of(lazy.solve(NOW + 3, settled=True).rows).keys() == {"ann", "bob", "cem"}, "settled ones are exact"


def test_skills_and_verdicts_come_at_their_own_pace_and_models_in_between():
    crowd = Crowd(skills_every_s=10.0)
    rows = []
    for second in range(0, 24, 4):
        crowd.say(NOW + second, *triangle(seed=second, time=second))
        solution = crowd.solve(NOW + second)
        assert solution.skills.version == len(rows) + 1, "answers always get a model"
        rows.append(solution.rows is not None)
    assert rows == [True, False, False, True, False, False]
    assert crowd.solve(NOW + 24, settled=True).rows is not None, "a settled one has all"


def test_a_worker_who_loses_all_labels_gets_a_row_that_says_so_once():
    crowd = Crowd()
    events = triangle()
    crowd.say(NOW, *events)
    crowd.solve(NOW)
    crowd.say(NOW + 1, *((task, worker, label, 2, True) for task, worker, label, _ in events if worker == "cem"))
    (row,) = [row for row in crowd.solve(NOW + 2).rows.to_pylist() if row["worker"] == "cem"]
    assert (row["status"], row["n_labels"], row["skill_low"], row["skill_high"]) == ("no-labels", 0, -1, 1)
    again = crowd.solve(NOW + 3, settled=True)
    assert "cem" not in skills_of(again.rows)


def test_a_worker_who_goes_while_another_comes_is_told_of_at_once():
    crowd = Crowd()
    events = triangle()
    crowd.say(NOW, *events)
    crowd.solve(NOW)
    crowd.say(NOW + 1, *((task, worker, label, 2, True) for task, worker, label, _ in events if worker == "cem"))
    crowd.say(NOW + 1, *((task, "dan", label, 2) for task, worker, label, _ in events if worker == "cem"))
    states = {row["worker"]: row["status"] for row in crowd.solve(NOW + 2, settled=True).rows.to_pylist()}
    assert states["cem"] == "no-labels"
    assert "dan" in states


def test_the_verdict_on_the_graph_is_given_when_it_changes():
    crowd = Crowd()
    crowd.say(NOW, *triangle(workers=("ann", "bob")))
    (row,) = crowd.solve(NOW).graph.to_pylist()
    assert not row["identified"]
    crowd.say(NOW + 1, *triangle(seed=3, workers=("ann", "bob"), time=2))
    assert crowd.solve(NOW + 2).graph is None
    crowd.say(NOW + 3, *triangle(workers=("cem",)))
    (row,) = crowd.solve(NOW + 4).graph.to_pylist()
    assert row["identified"]


def test_versions_and_revisions_grow_even_when_the_clock_goes_back():
    crowd = Crowd(emit_if=0.0)
    found = []
    for n in range(3):
        crowd.say(NOW - n, *triangle(seed=n, time=1 + n))
        solution = crowd.solve(NOW - n)
        found.append((solution.skills.version, solution.rows["revision"][0].as_py()))
    versions, revisions = zip(*found, strict=True)
    assert versions == (1, 2, 3)
    assert list(revisions) == sorted(set(revisions))


def test_known_skills_draw_the_solution_to_them():
    free, known = Crowd(), Crowd(prior_skills={"ann": -0.5})
    for crowd in (free, known):
        crowd.say(NOW, *triangle())
    before, after = (skills_of(crowd.solve(NOW).rows)["ann"] for crowd in (free, known))
    assert after < before - 0.05


def test_an_error_in_a_solution_reaches_the_stream():
    crowd = Crowd()
    crowd.say(NOW, *triangle())

    def failing(*_):
        future = Future()
        future.set_exception(ValueError("no solution"))
        return future

    crowd.keeper.begin(NOW, failing)
    with pytest.raises(ValueError, match="no solution"):
        crowd.keeper.finished(NOW, crowd.orders)


@pytest.mark.parametrize(("second", "given"), [(14.9, False), (15.0, True)])
def test_at_most_a_fifth_of_the_time_is_spent_on_solutions_with_intervals(second, given):
    crowd = Crowd(skills_every_s=10.0)
    crowd.orders.seconds = 1.5  # each of the two parts
    crowd.say(NOW, *triangle())
    crowd.solve(NOW)
    crowd.say(NOW + second, *triangle(seed=1, time=2))
    assert (crowd.solve(NOW + second).rows is not None) is given
