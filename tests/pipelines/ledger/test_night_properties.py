"""Any events, cut into nights and files in any way, leave what crowdcore counts in all of them together."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nights import counted, edges_of, last_events, ledger_command, rows_of, run_of, state_of, write_events
from oracle import aggregated

from crowdcore import pairs
from pipelines import nightly
from pipelines.ledger import night
from pipelines.ledger.folder import LedgerFolder
from pipelines.ledger.night_settings import NightSettings
from pipelines.settings import BatchSettings

NO_TIME = -(1 << 63)
TASKS = ["t", "u", "v", "wörter", "x" * 40]
WORKERS = [f"w{number}" for number in range(6)] + ["zoë"]
events = st.tuples(
    st.sampled_from(TASKS),
    st.sampled_from(WORKERS),
    st.sampled_from(["a", "b", "ç", None]),
    st.sampled_from([None, 1, 2, 3]),  # ties in time, and none at all
)
files = st.lists(events, min_size=1, max_size=12)
many_nights = st.lists(st.lists(files, min_size=1, max_size=2), min_size=1, max_size=5)


def run_nights(folder, nights, **options):
    """Runs all nights; a file has its place in its first column's name, so that no two are the same."""
    for number, parts in enumerate(nights):
        paths = [str(write_events(Path(folder, f"{number}-{k}.csv"), part)) for k, part in enumerate(parts)]
        nightly.run(NightSettings(BatchSettings(tuple(paths), ""), str(Path(folder, "ledger")), **options))
    return Path(folder, "ledger")


def distinct(nights):
    """The nights with an event of their own in each file: a file that is known is not read again."""
    return [
        [[*part, (f"own-{number}-{k}", "w0", "a", 1)] for k, part in enumerate(parts)]
        for number, parts in enumerate(nights)
    ]


def all_events(nights):
    return [event for parts in nights for part in parts for event in part]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(nights=many_nights, shards=st.sampled_from([1, 2, 7]), merged=st.sampled_from([0, 8, 1000]))
def test_counts_and_labels_are_those_of_all_events_together(nights, shards, merged):
    nights = distinct(nights)
    everything = all_events(nights)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(night, "_MERGED_ROWS", merged)  # 0: segments are never merged, 1000: as often as can be
        ledger = run_nights(folder, nights, shards=shards)
        assert edges_of(ledger) == counted(everything)
        found = state_of(ledger)
        assert found["rows"] == last_events(everything)
        assert found["n_tasks"] == len({task for task, *_ in everything})
        assert ledger_command("verify", ledger)["sound"]


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(nights=st.lists(st.lists(files, min_size=1, max_size=2), min_size=2, max_size=3), most=st.sampled_from([3, 6]))
def test_pairs_of_very_large_tasks_are_the_same_sample(nights, most):
    nights = distinct(nights)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(pairs, "MAX_PAIRS", most)
        ledger = run_nights(folder, nights, shards=2)
        assert edges_of(ledger) == counted(all_events(nights))


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(nights=st.lists(st.lists(files, min_size=1, max_size=2), min_size=2, max_size=4), shards=st.sampled_from([1, 3]))
def test_all_answers_anew_are_those_of_crowdcore(nights, shards):
    """With three good workers on ten tasks in the first night, so that skills are determined."""
    solid = [(f"s{task}", f"w{worker}", "ab"[task % 2], 5) for task in range(10) for worker in range(3)]
    nights = distinct([[solid], *nights])
    with tempfile.TemporaryDirectory() as folder:
        ledger = run_nights(folder, nights, shards=shards, rescore="all")
        labels = [(*key, label, 0) for key, (label, *_) in last_events(all_events(nights)).items() if label]
        scores, skills = aggregated(labels)
        found = rows_of(run_of(ledger), "scores", "task")
        assert found.keys() == scores.keys()
        for worker, row in rows_of(run_of(ledger), "skills", "worker").items():
            assert abs(row["skill"] - skills[worker][0]) <= 1e-6
        for task, (label, probability, *_) in scores.items():
            assert abs(found[task]["probability"] - probability) <= 1e-5
            assert found[task]["label"] == label or found[task]["probability"] <= 0.5 + 1e-5


def test_a_task_of_more_than_a_thousand_labels_is_sampled_as_crowdcore_samples_it(tmp_path):
    """With the real limit: a task that grows over it in the second night, and falls under it in the third."""
    rows = [("big", f"w{number:04d}", "ab"[number % 3 == 0], number) for number in range(1100)]
    nights = [[rows[:900]], [rows[900:]], [[(task, worker, None, 5000) for task, worker, *_ in rows[::5]]]]
    sampled = []
    for number in range(1, 4):
        ledger = run_nights(tmp_path, nights[:number])
        assert edges_of(ledger) == counted(all_events(nights[:number]))
        sampled.append(LedgerFolder(str(ledger)).existing().n_sampled)
    assert sampled == [0, 1, 0]
