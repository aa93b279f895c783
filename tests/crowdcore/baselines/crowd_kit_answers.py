"""Runs in crowd-kit's environment: its answers on labels from a JSON file, written to another."""

import json
import sys
import warnings
from pathlib import Path


def main(given: Path, found: Path) -> None:
    import pandas as pd  # here, for pytest imports this file to look for doctests
    from crowdkit.aggregation import KOS, DawidSkene, MajorityVote, OneCoinDawidSkene

    warnings.simplefilter("ignore")
    answers = {}
    for name, rows in json.loads(given.read_text(encoding="utf-8")).items():
        frame = pd.DataFrame(rows, columns=["task", "worker", "label"])
        methods = {"majority": [MajorityVote()], "dawid-skene": [DawidSkene()], "one-coin": [OneCoinDawidSkene()]}
        if frame["label"].nunique() == 2:
            methods["kos"] = [KOS(random_state=seed) for seed in range(3)]
        answers[name] = {
            method: [[int(x) for x in each.fit_predict(frame).sort_index()] for each in tried]
            for method, tried in methods.items()
        }
        shares = MajorityVote().fit_predict_proba(frame).sort_index(axis=0).sort_index(axis=1)
        answers[name]["shares"] = shares.to_numpy().tolist()
    found.write_text(json.dumps(answers), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
