"""Options of the model change what a stream says: the same events, without the option and with it."""

from collections import Counter

import pytest
from stream_options_run import ROWS, OptionRuns, answers, option_folders, settings_for

from pipelines.errors import InvalidSettingError

OF_MODEL = {}


def case(option, given, without=()):
    """Registers a check of two runs in this process; words with braces are paths in the inputs' folder."""

    def register(check):
        OF_MODEL[option] = (given, without, check)
        return check

    return register


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    return OptionRuns(option_folders(tmp_path_factory.mktemp("events")), tmp_path_factory)


@case("--classes", given=("--classes", "c0,c1"))
def _(without, given):
    strangers = sum(label == "c2" for _, _, label in ROWS)
    assert without.rejects == []
    assert Counter(row["reason"] for row in given.rejects) == {"label-not-in-classes": strangers}


@case(
    "--class-prior",
    given=("--classes", "c0,c1,c2", "--class-prior", "c0=.01,c1=.01,c2=.98"),
    without=("--classes", "c0,c1,c2"),
)
def _(without, given):
    before, after = (Counter(row["label"] for row in run.scores.values()) for run in (without, given))
    assert after["c2"] > before["c2"]


@case("--prior-skills", given=("--prior-skills", "{}/prior.csv"))
def _(without, given):
    assert given.skills["w0"] < without.skills["w0"]


@case(
    "--prior-strength",
    given=("--prior-skills", "{}/prior.csv", "--prior-strength", "1000"),
    without=("--prior-skills", "{}/prior.csv"),
)
def _(without, given):
    assert abs(given.skills["w0"] + 0.5) < 0.05 < abs(without.skills["w0"] + 0.5)


@case("--probabilities", given=("--probabilities",))
def _(without, given):
    assert all(row["probabilities"] is None for row in without.scores.values())
    for row in given.scores.values():
        assert sum(row["probabilities"].values()) == pytest.approx(1)


@case("--confidence", given=("--confidence", "0.5"))
def _(without, given):
    wide, narrow = (run.stream.skills for run in (without, given))
    for worker, row in narrow.items():
        assert row["skill_high"] - row["skill_low"] < wide[worker]["skill_high"] - wide[worker]["skill_low"]


@case("--min-labels", given=("--min-labels", "4"))
def _(without, given):
    assert "too-few-labels" not in {row["status"] for row in without.scores.values()}
    assert {row["status"] for row in given.scores.values()} == {"too-few-labels"}


@case("--weights", given=("--weights", "binary"))
def _(without, given):
    assert differ_in_skills(without, given)


@case("--saturation", given=("--weights", "saturating", "--saturation", "0.5"), without=("--weights", "saturating"))
def _(without, given):
    assert differ_in_skills(without, given)


@case("--multiclass", given=("--multiclass", "one-vs-rest"))
def _(without, given):
    assert given.skills == without.skills
    assert answers(given, "margin") != answers(without, "margin")


@case("--solver", given=("--solver", "paper"))
def _(without, given):
    assert differ_in_last_digits(without, given)


@case("--start", given=("--solver", "paper", "--start", "spectral"), without=("--solver", "paper", "--start", "half"))
def _(without, given):
    assert differ_in_last_digits(without, given)


@case(
    "--seed",
    given=("--solver", "paper", "--start", "random", "--seed", "1"),
    without=("--solver", "paper", "--start", "random"),
)
def _(without, given):
    assert differ_in_last_digits(without, given)


@case("--model", given=("--model", "one-coin"))
def _(without, given):
    assert given.scores == without.scores, "it is the only one"
    with pytest.raises(InvalidSettingError, match="--model is 'two-coin'; it takes one-coin"):
        settings_for((*given.words, "--model", "two-coin"), given.control)


def differ_in_skills(without, given, by=1e-3):
    return most_apart(without, given) > by


def differ_in_last_digits(without, given):
    """Another way to the same solution."""
    return 0 < most_apart(without, given) < 1e-8


def most_apart(without, given):
    return max(abs(without.skills[worker] - given.skills[worker]) for worker in given.skills)


@pytest.mark.parametrize("option", sorted(OF_MODEL))
def test_option_of_the_model_changes_what_the_stream_says(option, run_once):
    given, without, check = OF_MODEL[option]
    check(*run_once.both("labels", without, given))
