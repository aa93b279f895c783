"""After any history the stream gives what the batch gives of the labels that hold."""

import numpy as np
from histories import Event, block_of, cut, random_events, surviving
from hypothesis import given, settings
from hypothesis import strategies as st
from in_process import Stream

import schemas
from crowdcore.edges import EdgeCounts
from pipelines.grouped import group_blocks
from pipelines.scoring import score_shard
from pipelines.settings import AggregateSettings
from pipelines.solving import solve
from pipelines.streaming.answering import AnswerRules
from pipelines.streaming.skill_keeping import SkillRules

SCORE, SKILL, GRAPH = (schemas.arrow_schema(name).names for name in ("score", "skill", "graph"))


def batch_of(labels, aggregate=None):
    """Edges, skills and scores of the batch's own functions on these labels."""
    aggregate = aggregate or AggregateSettings()
    shard = group_blocks(0, [block_of(labels)], "last").shard
    edges = EdgeCounts.of(shard.labels, shard.workers.to_pylist(), shard.classes.to_pylist())
    solved = solve(edges, aggregate)
    table, _ = score_shard(shard, solved.model, aggregate)
    skills = {row["worker"]: row for row in solved.skill_table().to_pylist()}
    scores = {row["task"]: row for row in table.to_pylist(maps_as_pydicts="strict")}
    return edges, skills, scores, solved.graph_table().to_pylist()


def assert_holds_what_the_batch_gives(stream, events):
    """The counts, and what readers of the sinks see."""
    labels = surviving(events)
    found = {worker: row for worker, row in stream.skills.items() if row["status"] != "no-labels"}
    answers = stream.answers()
    if not labels:
        assert (answers, found, stream.components()) == ({}, {}, [])
        return
    edges, skills, scores, graph = batch_of(labels)
    assert stream.keeper.ledger.edges() == edges
    assert {worker: {name: row[name] for name in SKILL} for worker, row in found.items()} == skills
    assert [{name: row[name] for name in GRAPH} for row in stream.components()] == graph
    assert answers.keys() == scores.keys()
    for task, row in scores.items():
        assert {name: answers[task][name] for name in SCORE} == row


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_events=st.integers(1, 300),
    shards=st.integers(1, 5),
    n_cuts=st.integers(0, 12),
    crash=st.booleans(),
    emit_if=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
    old=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_after_any_history_edges_skills_and_answers_are_those_of_the_batch(
    seed, n_events, shards, n_cuts, crash, emit_if, old
):
    rng = np.random.default_rng(seed)
    events = random_events(rng, n_events)
    stream = Stream(shards, skills=SkillRules(emit_if=emit_if), answers=AnswerRules(emit_if=emit_if))
    for piece in cut(rng, events, n_cuts):
        age_s = 60.0 if rng.random() < old else 0.0  # a backlog waits for the next model
        stream.feed(block_of(piece, arrived_us=int((stream.now - age_s) * 1e6)))
        if rng.random() < 0.5:
            stream.tick()
        if crash and rng.random() < 0.3:
            stream.rebuild(int(rng.integers(shards)))
    stream.tick(settled=True)
    assert stream.keeper.ledger.n_events == len(events)
    assert_holds_what_the_batch_gives(stream, events)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_events=st.integers(1, 80),
    n_pieces=st.integers(2, 10),
    from_the_start=st.booleans(),
    emit_if=st.sampled_from([0.0, 0.3]),
)
def test_after_a_crash_the_sinks_hold_nothing_of_the_time_that_was_rolled_back(
    seed, n_events, n_pieces, from_the_start, emit_if
):
    rng = np.random.default_rng(seed)
    labels = random_events(rng, n_events, n_tasks=30, n_workers=15)
    withdrawn = [Event(one.task, one.worker, "", 60, deleted=True) for one in labels if rng.random() < 0.5]
    pieces = cut(rng, [*labels, *withdrawn], n_pieces)
    stream = Stream(2, skills=SkillRules(emit_if=emit_if), answers=AnswerRules(emit_if=emit_if))
    saved = 0 if from_the_start else int(rng.integers(len(pieces)))
    for number, piece in enumerate(pieces):
        if number == saved:
            checkpoint = stream.checkpoint()
        stream.feed(block_of(piece, arrived_us=int(stream.now * 1e6)))
        stream.tick(settled=bool(rng.random() < 0.5))
    stream.roll_back(checkpoint)
    again = [event for piece in pieces[saved:] for event in piece]
    for piece in cut(rng, again, int(rng.integers(2))):
        stream.feed(block_of(piece, arrived_us=int(stream.now * 1e6)))
    stream.tick(settled=True)
    assert_holds_what_the_batch_gives(stream, [*labels, *withdrawn])
