"""One program of `benchmarks.door`: a pandas frame from a file, one estimator on it. Runs in either environment.

python -m benchmarks.door_job FILE TRUTH [MODULE CLASS]

Without a class it loads the frame and ends. It prints, as JSON, how long fitting took and the share of wrong answers.
"""

import json
import sys
import time
from importlib import import_module


def main(file: str, truth: str, module: str = "", name: str = "") -> None:
    """Loads, fits, prints."""
    import pandas as pd

    labels = pd.read_parquet(file)
    if not module:
        return
    estimator = getattr(import_module(module), name)()
    start = time.perf_counter()
    answers = estimator.fit_predict(labels)
    fit_s = time.perf_counter() - start
    known = pd.read_parquet(truth).set_index("task")["label"]
    print(json.dumps({"fit_s": fit_s, "error": float((answers.reindex(known.index) != known).mean())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
