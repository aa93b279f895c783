"""One program of `benchmarks.door`: a pandas frame from a file, one estimator on it. Runs in either environment.

python -m benchmarks.door_job FILE [MODULE CLASS [TRUTH]]

Without a class it loads the frame and ends. It prints, as JSON, how long fitting took, and with a file of the truth the
share of wrong answers, which is not for measuring: the comparison takes memory too.
"""

import json
import sys
import time
from importlib import import_module


def main(file: str, module: str = "", name: str = "", truth: str = "") -> None:
    """Loads, fits, prints."""
    import pandas as pd

    labels = pd.read_parquet(file)
    if not module:
        return
    estimator = getattr(import_module(module), name)()
    start = time.perf_counter()
    answers = estimator.fit_predict(labels)
    fit_s = time.perf_counter() - start
    error = None
    if truth:
        known = pd.read_parquet(truth).set_index("task")["label"]
        error = float((answers.reindex(known.index) != known).mean())
    print(json.dumps({"fit_s": fit_s, "error": error}))


if __name__ == "__main__":
    main(*sys.argv[1:])
