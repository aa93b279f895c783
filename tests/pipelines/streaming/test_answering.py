"""Which answers are given again: those that changed enough, at once or, of a backlog, with the next round."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from histories import Event, block_of

from pipelines.answers import NO_LABELS
from pipelines.model import IDENTIFIED, UNIDENTIFIED, Model
from pipelines.settings import AggregateSettings
from pipelines.streaming.answering import AnswerBoard, AnswerRules
from pipelines.streaming.envelopes import Skills

NOW = 1000.0


def texts(names):
    return pa.array(names, pa.large_string())


def skills(version, classes=("no", "yes"), settled=False, **weights):
    """A model in which each worker's vote weighs so much: the log-odds of being right."""
    workers = sorted(weights)
    model = Model(
        texts(workers),
        np.array([weights[worker] for worker in workers]),
        np.full(len(workers), IDENTIFIED, np.uint8),
        texts(classes),
        len(classes),
        np.empty(0),
        "one-coin",
    )
    return Skills(version, settled, 0, model.to_bytes())


def probability(weight):
    return 1 / (1 + math.exp(-weight))


def labels(*events, arrived=NOW):
    return block_of([Event(*event) for event in events], arrived_us=int(arrived * 1e6))


def given(table):
    """{task: (label, probability)} of the rows of a table."""
    rows = [] if table is None else table.to_pylist()
    return {row["task"]: (row["label"], row["probability"]) for row in rows}


def board_with(model, *events, **rules):
    board = AnswerBoard(AnswerRules(**rules))
    board.learn(model, NOW)
    return board, given(board.take(labels(*events), NOW))


def test_before_the_first_model_nothing_is_answered_and_with_it_everything():
    board = AnswerBoard(AnswerRules())
    assert board.take(labels(("t", "ann", "yes", 1)), NOW) is None
    assert given(board.learn(skills(1, ann=1.0), NOW)) == {"t": ("yes", pytest.approx(probability(1.0)))}


def test_a_fresh_label_is_answered_at_once_and_only_its_task():
    board, _ = board_with(skills(1, ann=1.0, bob=2.0), ("t", "ann", "yes", 1), ("u", "ann", "yes", 1))
    assert given(board.take(labels(("t", "bob", "yes", 2)), NOW)) == {"t": ("yes", pytest.approx(probability(3.0)))}


def test_an_answer_is_given_again_when_its_probability_changes_by_more_than_emit_if():
    board, first = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1), emit_if=0.01)
    near, far = 1.05, 1.06
    assert probability(near) - probability(1.0) < 0.01 < probability(far) - probability(1.0)
    assert first == {"t": ("yes", pytest.approx(probability(1.0)))}
    assert given(board.learn(skills(2, ann=near), NOW)) == {}
    assert given(board.learn(skills(3, ann=far), NOW)) == {"t": ("yes", pytest.approx(probability(far)))}


def test_a_settled_model_gives_a_score_again_though_its_probability_stays_one():
    board, first = board_with(skills(1, ann=40.0), ("t", "ann", "yes", 1))
    assert first == {"t": ("yes", 1.0)}
    (row,) = board.learn(skills(2, settled=True, ann=41.0), NOW).to_pylist()
    assert (row["probability"], row["score"]) == (1.0, 41.0)


def test_small_changes_that_add_up_are_given():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1), emit_if=0.01)
    assert given(board.learn(skills(2, ann=1.04), NOW)) == {}
    assert given(board.learn(skills(3, ann=1.08), NOW)) != {}


def test_an_answer_whose_label_changes_is_given_however_little_its_probability_does():
    board, first = board_with(skills(1, ann=0.01), ("t", "ann", "yes", 1), emit_if=0.5)
    assert first["t"][0] == "yes"
    found = given(board.learn(skills(2, ann=-0.01), NOW))
    assert found == {"t": ("no", pytest.approx(first["t"][1]))}


def test_a_settled_model_gives_every_answer_that_differs_at_all():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1), emit_if=1.0)
    assert given(board.learn(skills(2, ann=1.0001), NOW)) == {}
    assert given(board.learn(skills(3, settled=True, ann=1.0001), NOW)) == {
        "t": ("yes", pytest.approx(probability(1.0001), abs=1e-9))
    }
    assert given(board.learn(skills(4, settled=True, ann=1.0001), NOW)) == {}


def test_a_label_gives_a_row_that_counts_it_though_its_answer_is_the_same():
    """A worker of no skill changes the number of labels and nothing else."""
    board, _ = board_with(skills(1, ann=1.0, bob=0.0), ("t", "ann", "yes", 1), emit_if=1.0)
    (row,) = board.take(labels(("t", "bob", "no", 1)), NOW).to_pylist()
    assert (row["label"], row["n_workers"], row["probability"]) == ("yes", 2, pytest.approx(probability(1.0)))


def test_a_settled_model_gives_a_row_whose_status_is_another_though_its_answer_is_the_same():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1))
    vague = skills(2, settled=True, ann=1.0)
    model = replace(Model.from_bytes(vague.frame), standing=np.full(1, UNIDENTIFIED, np.uint8))
    (row,) = board.learn(replace(vague, frame=model.to_bytes()), NOW).to_pylist()
    assert row["status"] == "unidentified"


def test_a_settled_model_gives_a_row_of_which_only_other_classes_changed():
    """The probability of the answer is the same to the last bit, and those of two others are exchanged."""
    rules = AggregateSettings(classes=("a", "b", "c"), probabilities=True)
    names = ("a", "b", "c")
    board = AnswerBoard(AnswerRules(rules))
    board.learn(skills(1, classes=names, ann=3.0, bob=1.0, cem=0.5), NOW)
    board.take(labels(("t", "ann", "a", 1), ("t", "bob", "b", 1), ("t", "cem", "c", 1)), NOW)
    swapped = skills(2, classes=names, settled=True, ann=3.0, bob=0.5, cem=1.0)
    (row,) = board.learn(swapped, NOW).to_pylist()
    assert row["label"] == "a"
    assert board.learn(replace(swapped, version=3), NOW) is None


def test_a_model_that_is_not_newer_changes_nothing():
    board, _ = board_with(skills(5, ann=1.0), ("t", "ann", "yes", 1))
    assert board.learn(skills(5, ann=3.0), NOW) is None
    assert board.learn(skills(4, ann=3.0), NOW) is None
    assert board.version == 5


def test_labels_that_arrived_more_than_five_seconds_ago_are_answered_with_the_next_model():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1))
    assert given(board.take(labels(("u", "ann", "yes", 1), arrived=NOW - 4.9), NOW)).keys() == {"u"}
    assert board.take(labels(("v", "ann", "yes", 1), arrived=NOW - 5.1), NOW) is None
    assert given(board.learn(skills(2, ann=1.0), NOW)).keys() == {"v"}


def test_old_labels_that_a_passing_model_rests_on_wait_for_the_next_one():
    board = AnswerBoard(AnswerRules())
    board.know(replace(skills(1, ann=1.0), sent=2))
    assert board.take(labels(("t", "ann", "yes", 1), arrived=NOW - 60), NOW, number=1) is None
    board.know(replace(skills(2, ann=1.0, settled=True), sent=2))
    found = given(board.take(labels(("u", "ann", "yes", 1), arrived=NOW - 60), NOW, number=2))
    assert found.keys() == {"t", "u"}, "and after a settled one nothing waits"


def test_while_there_is_a_backlog_a_round_of_answers_is_given_every_half_minute():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1))
    rounds = []
    for second in range(0, 72, 6):
        now = NOW + second
        board.take(labels((f"b{second}", "ann", "yes", 1), arrived=now - 60), now)
        rounds.append((second, sorted(given(board.learn(skills(2 + second, ann=1.0), now)))))
    assert [second for second, tasks in rounds if tasks] == [0, 30, 60]
    assert dict(rounds)[30] == sorted(f"b{second}" for second in (6, 12, 18, 24, 30))


def test_where_tasks_are_many_not_every_model_makes_them_be_looked_at_again():
    events = [(f"t{n}", "ann", "yes", 1) for n in range(6)]
    board, _ = board_with(skills(1, ann=1.0), *events, looks_per_s=1.0)
    seconds = range(0, 20, 2)
    looked = [second for second in seconds if given(board.learn(skills(2 + second, ann=1 + second / 5), NOW + second))]
    assert looked == [6, 12, 18]
    assert given(board.take(labels(("t0", "ann", "no", 2), arrived=NOW + 19), NOW + 19))["t0"][0] == "no", (
        "a label is answered at once"
    )
    assert given(board.learn(skills(50, settled=True, ann=9.0), NOW + 19)).keys() == {task for task, *_ in events}


def test_a_fresh_label_ends_the_backlog_and_what_waited_is_answered_with_it():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1))
    board.take(labels(("old", "ann", "yes", 1), arrived=NOW - 60), NOW)
    assert given(board.take(labels(("new", "ann", "yes", 1)), NOW)).keys() == {"old", "new"}


def test_a_settled_model_does_not_wait_for_the_next_round():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1))
    board.take(labels(("a", "ann", "yes", 1), arrived=NOW - 60), NOW)
    assert given(board.learn(skills(2, ann=1.0), NOW)).keys() == {"a"}
    board.take(labels(("b", "ann", "yes", 1), arrived=NOW - 60), NOW)
    assert board.learn(skills(3, ann=1.0), NOW + 1) is None
    assert given(board.learn(skills(4, settled=True, ann=1.0), NOW + 2)).keys() == {"b"}


def test_a_task_that_closes_gets_its_last_answer_and_is_forgotten():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1), ("u", "ann", "no", 1))
    (row,) = board.close(texts(["t"]), NOW).to_pylist()
    assert (row["task"], row["label"], row["closed"], row["model_version"]) == ("t", "yes", True, 1)
    assert board.table.tasks.names(range(len(board.table.tasks))).to_pylist() == ["u"]
    assert board.close(texts(["t", "never seen"]), NOW) is None


def test_what_was_answered_to_tasks_that_stay_open_is_still_known_after_others_close():
    events = [(f"t{n}", "ann", ("no", "yes")[n % 2], 1) for n in range(6)]
    board, _ = board_with(skills(1, ann=1.0), *events)
    board.close(texts(["t0", "t2", "t4"]), NOW)
    assert board.learn(skills(2, settled=True, ann=1.0), NOW) is None
    assert given(board.learn(skills(3, settled=True, ann=2.0), NOW)).keys() == {"t1", "t3", "t5"}


def test_a_task_may_close_before_there_is_a_model():
    board = AnswerBoard(AnswerRules())
    board.take(labels(("t", "ann", "yes", 1), ("t", "bob", "yes", 1)), NOW)
    (row,) = board.close(texts(["t"]), NOW).to_pylist()
    assert (row["label"], row["closed"], row["model_version"], row["n_workers"]) == ("yes", True, 0, 2)


def test_a_task_that_waits_in_a_backlog_closes_with_all_its_labels():
    board, _ = board_with(skills(1, ann=1.0, bob=2.0), ("t", "ann", "no", 1))
    board.take(labels(("t", "bob", "yes", 1), arrived=NOW - 60), NOW)
    (row,) = board.close(texts(["t"]), NOW).to_pylist()
    assert (row["label"], row["n_workers"]) == ("yes", 2)


def test_a_class_that_the_model_does_not_know_can_be_an_answer():
    board, found = board_with(skills(1, ann=1.0, bob=1.0), ("t", "ann", "perhaps", 1), ("t", "bob", "perhaps", 1))
    assert found["t"][0] == "perhaps"
    later = board.learn(skills(2, classes=("no", "perhaps", "yes"), settled=True, ann=1.0, bob=2.0), NOW)
    assert [label for label, _ in given(later).values()] == ["perhaps"], "also when the model knows it"


def test_a_class_that_the_model_does_not_know_competes_with_those_it_knows():
    _, found = board_with(skills(1, ann=3.0, bob=1.0), ("t", "ann", "yes", 1), ("t", "bob", "perhaps", 1))
    assert found["t"][0] == "yes"


def test_known_classes_may_win_before_anybody_has_chosen_them():
    rules = AnswerRules(AggregateSettings(classes=("no", "yes")))
    board = AnswerBoard(rules)
    board.take(labels(("t", "ann", "no", 1)), NOW)
    assert given(board.learn(skills(1, ann=-2.0), NOW))["t"][0] == "yes"


def test_a_task_that_loses_all_its_labels_is_told_so_once_and_may_come_back():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1), ("u", "ann", "yes", 1))
    (row,) = board.take(labels(("t", "ann", "yes", 2, True)), NOW).to_pylist()
    assert (row["task"], row["status"], row["label"], row["n_workers"], row["probability"]) == (
        "t",
        NO_LABELS,
        "",
        0,
        0,
    )
    assert board.learn(skills(2, settled=True, ann=1.0), NOW) is None
    assert given(board.take(labels(("t", "ann", "no", 3)), NOW)) == {"t": ("no", pytest.approx(probability(1.0)))}


def test_a_withdrawal_of_what_was_never_answered_is_told_once_for_a_sink_may_hold_an_answer_of_before():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1))
    assert board.take(labels(("u", "ann", "yes", 1, True)), NOW) is None
    (row,) = board.learn(skills(2, settled=True, ann=1.0), NOW).to_pylist()
    assert (row["task"], row["status"]) == ("u", NO_LABELS)
    assert board.learn(skills(3, settled=True, ann=1.0), NOW) is None


def test_revisions_grow_even_when_the_clock_stands_still_or_goes_back():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1))
    tables = [board.learn(skills(2 + n, ann=2.0 + n), NOW - n) for n in range(3)]
    revisions = [table["revision"][0].as_py() for table in tables]
    assert revisions == sorted(set(revisions))
    assert revisions[0] > NOW * 1e6


def test_a_board_that_was_rebuilt_gives_every_answer_again():
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1), ("u", "ann", "no", 1))
    again = AnswerBoard.of(AnswerRules(), [board.table.block()], board.revision)
    again.know(skills(1, ann=1.0))
    assert given(again.learn(skills(2, ann=1.0), NOW)).keys() == {"t", "u"}


def test_a_board_that_was_rebuilt_tells_also_of_tasks_that_have_lost_all_their_labels():
    """The sink may hold their last answer, from before the crash."""
    board, _ = board_with(skills(1, ann=1.0), ("t", "ann", "yes", 1))
    board.wait(labels(("t", "ann", "yes", 2, True), arrived=NOW - 60))
    again = AnswerBoard.of(AnswerRules(), [board.table.block()], board.revision)
    (row,) = again.learn(skills(2, ann=1.0), NOW).to_pylist()
    assert (row["task"], row["status"]) == ("t", NO_LABELS)
    assert again.learn(skills(3, settled=True, ann=1.0), NOW) is None
