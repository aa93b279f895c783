"""`python -m benchmarks.methods`: the error of every method on public datasets, written to docs/methods-table.md."""

import sys
import time

import numpy as np

from benchmarks import ROOT
from benchmarks.datasets import DATA, load
from crowdcore.baselines.majority import majority_vote
from crowdcore.methods import METHODS
from crowdcore.metrics import error_rate

PAGE = ROOT / "docs" / "methods-table.md"
NAMES = (
    "rte1", "temp", "dogs", "web", "bluebirds", "ducks", "wsd", "product", "sentiment", "barzan", "face", "leaves",
    "labelme", "reuters", "adult2", "fact_eval", "trec", "relevance", "hitspam_cf", "smile",
)  # fmt: skip
SEED = 0


def errors_on(name: str) -> dict[str, float]:
    """The error of each method; of majority vote the expectation over ties."""
    labels, truth = load(name)
    found = {}
    for method, run in METHODS.items():
        if method == "majority":
            found[method] = majority_vote(labels).expected_error(truth)
        else:
            found[method] = error_rate(run(labels, rng=np.random.default_rng(SEED)).answer, truth)
    return found


def as_page(errors: dict[str, dict[str, float]]) -> str:
    """The table, with the mean of each method."""
    head = ["dataset", *METHODS]
    means = {method: float(np.mean([row[method] for row in errors.values()])) for method in METHODS}
    rows = [head, ["---"] * len(head)]
    rows += [[name, *(f"{row[method]:.4f}" for method in METHODS)] for name, row in errors.items()]
    rows.append(["mean", *(f"{means[method]:.4f}" for method in METHODS)])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        "# Error of every method\n\nWritten by `python -m benchmarks.methods`. Default settings, seed "
        f"{SEED}; majority vote as the expectation over ties; of repeated labels the last counts. `trec` and "
        "`relevance` are not independent of each other, so the mean is a summary and no ranking. On `hitspam_cf` all "
        "labels of a task with truth agree, so that no method can differ. Choosing a method by its column"
        f" here means looking at the truth.\n\n{table}\n"
    )


def main() -> int:
    """Measures, prints, writes."""
    if not DATA.is_dir():
        print(f"the datasets are not in {DATA.name}; $CROWDBEAM_DATA may say where they are")
        return 1
    begun, errors = time.perf_counter(), {}
    for name in NAMES:
        errors[name] = errors_on(name)
        print(f"{name} …", flush=True)
    page = as_page(errors)
    PAGE.write_text(page, encoding="utf-8")
    print(page, f"{time.perf_counter() - begun:.0f} s", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
