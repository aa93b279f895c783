"""`python -m benchmarks [names...] [--quick] [--runs 3]`: measures, prints tables, writes docs/benchmarks.md.

Ends with 1 if a bar is missed, a program fails, or results differ.
"""

import argparse
import json
import shutil
import subprocess
import sys

from benchmarks import CACHE, ROOT, report
from benchmarks.cases import CROWD_KIT, LIMIT_S, SOLVER, Trial, make_cases
from benchmarks.check import compare, error_rate
from benchmarks.data import make_data
from benchmarks.environment import make_environment
from benchmarks.measure import Usage, measure, median_of, run_interleaved

PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = CACHE / "results.json"


def main(argv: list[str]) -> int:
    """Runs the benchmarks named in `argv`, all of them if none is."""
    names = list(make_cases(quick=False))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(names)}; all when none is given")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the labels: tries the benchmark itself")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="of each program (3)")
    options = parser.parse_args(argv)
    unknown = set(options.names) - set(names)
    if unknown or options.runs < 1:
        parser.error(f"there is no case {unknown.pop()!r}" if unknown else "--runs takes 1 or more")
    cases = {name: case for name, case in make_cases(options.quick).items() if name in (options.names or names)}
    trials = report.unique_trials(cases)
    _prepare(trials)
    results = report.Results(cases, _run(trials, options.runs))
    _check(results)
    _show(results)
    RESULTS.write_text(json.dumps(report.as_json(results), indent=1))
    if options.quick:
        _say("A twentieth of the labels: the bars are meant for all of them.")
    if options.quick or options.names:
        _say("docs/benchmarks.md is left as it is: it takes all cases in full.")
    else:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(report.as_page(results))
        _say("wrote docs/benchmarks.md")
    return 0 if results.good else 1


def _prepare(trials: list[Trial]) -> None:
    """Makes what is missing and reads the input once, so that no program pays for a cold disk."""
    for trial in trials:
        if trial.program == SOLVER:
            continue
        for form in dict.fromkeys(("parquet", trial.form)):
            if make_data(trial.crowd, form):
                _say(f"made {trial.crowd.n_labels:,} labels of {trial.crowd.n_workers:,} workers as {form}")
        for file in trial.crowd.files(trial.form):
            file.read_bytes()
    if any(trial.program == CROWD_KIT for trial in trials):
        try:
            if make_environment():
                _say("made the environment of crowd-kit")
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            _say(f"the environment of crowd-kit cannot be made, so (b) is not measured: {error}")


def _run(trials: list[Trial], n_runs: int) -> dict[str, list[Usage]]:
    by_name = {trial.name: trial for trial in trials}

    def run(name: str) -> Usage:
        _say(f"{name} …")
        shutil.rmtree(by_name[name].output, ignore_errors=True)
        return measure(by_name[name].command(), LIMIT_S)

    def tell(name: str, round_number: int, usage: Usage) -> None:
        if usage.failed:
            _say(f"{name} FAILED with exit code {usage.exit_code}; the end of its output:\n{usage.output}")
        elif usage.timed_out:
            _say(f"{name}: stopped after {LIMIT_S:.0f} s, not run again")
        else:
            took = f"{usage.wall_s:.2f} s wall, {usage.cpu_s:.2f} s processor, {usage.memory_mb:,.0f} MB"
            _say(f"{name}, run {round_number} of {n_runs}: {took}")

    return run_interleaved(list(by_name), run, n_runs, tell)


def _check(results: report.Results) -> None:
    """Compares the results of the last runs."""
    finished = {name for name, runs in results.usages.items() if median_of(runs) is not None}
    for trial in results.trials:
        if trial.name in finished and trial.program != SOLVER:
            results.errors[trial.name] = error_rate(trial.output, trial.crowd.truth)
    for case in results.cases.values():
        for ours, plain in case.same:
            if {ours.name, plain.name} <= finished:
                results.agreements[ours.name, plain.name] = compare(ours.output, plain.output)


def _show(results: report.Results) -> None:
    for rows in (report.trial_rows(results), report.check_rows(results), report.bar_rows(results)):
        print(f"\n{report.as_text(rows)}")
    print(f"\n{report.solver_sentence(results)}\n{report.describe_machine(results)}\n", flush=True)


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
