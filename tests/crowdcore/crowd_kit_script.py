"""A script as one writes it for crowd-kit: argument 1 is a JSON file of labels, argument 2 one for what comes out.

`test_crowd_kit_dialect` runs it as it is in crowd-kit's environment, and with its imports changed on crowdcore.
"""

import json
import sys
import warnings
from pathlib import Path


def main(given, found):
    import pandas as pd
    from crowdkit.aggregation import KOS, DawidSkene, MajorityVote, OneCoinDawidSkene
    from crowdkit.metrics.data import alpha_krippendorff, consistency, uncertainty
    from crowdkit.metrics.workers import accuracy_on_aggregates

    warnings.simplefilter("ignore")
    results = {}
    for case, crowd in json.loads(Path(given).read_text()).items():
        df = pd.DataFrame(crowd["rows"], columns=["task", "worker", "label"])
        gold = pd.Series(dict(crowd["gold"]), name="true_label").rename_axis("task")
        weights = pd.Series(dict(crowd["weights"])).rename_axis("worker")
        mv, ds = MajorityVote(), DawidSkene(n_iter=10, tol=-1)
        one, kos = OneCoinDawidSkene(10, tol=-1), KOS(n_iter=20, random_state=1)
        shown = {
            "mv labels": mv.fit_predict(df),
            "mv probas": MajorityVote().fit_predict_proba(df),
            "mv fitted labels": mv.fit(df).labels_,
            "mv weighted": MajorityVote().fit_predict_proba(df, weights),
            "mv missing": MajorityVote(on_missing_skill="value", default_skill=0.1).fit_predict(df, weights[:3]),
            "ds labels": ds.fit_predict(df),
            "ds probas": ds.probas_,
            "ds priors": ds.priors_,
            "ds errors": ds.errors_,
            "ds gold": DawidSkene(n_iter=10, tol=-1).fit_predict_proba(df, true_labels=gold),
            "one labels": one.fit_predict(df),
            "one probas": one.probas_,
            "one errors": one.errors_,
            "kos labels": kos.fit_predict(df),
        }
        if case == "str":  # crowd-kit's metrics fail on some other types
            shown |= {
                "alpha": alpha_krippendorff(df),
                "alpha by distance": alpha_krippendorff(df, lambda a, b: abs(hash(a == b) - 1) * 0.5),
                "consistency": consistency(df),
                "consistency of skills": consistency(df, weights),
                "consistency by task": consistency(df, by_task=True),
                "uncertainty": uncertainty(df),
                "uncertainty of skills": uncertainty(df, weights),
                "uncertainty by worker": uncertainty(df, workers_skills=weights, compute_by="worker", aggregate=False),
                "accuracy": accuracy_on_aggregates(df),
                "accuracy by worker": accuracy_on_aggregates(df, by="worker"),
                "accuracy on gold": accuracy_on_aggregates(df, aggregates=gold),
            }
        results[case] = {name: describe(value) for name, value in shown.items()}
        results[case]["ds rounds"] = len(ds.loss_history_)
    Path(found).write_text(json.dumps(results))


def describe(value):
    """Names, types and values of a Series, a DataFrame or a number."""
    import pandas as pd

    if isinstance(value, float):
        return {"value": value}
    about = {"kind": type(value).__name__, "index": list(value.index.names)}
    about["index types"] = [str(value.index.get_level_values(name).dtype) for name in value.index.names]
    if isinstance(value, pd.Series):
        about |= {"name": value.name, "type": str(value.dtype)}
        return about | {"cells": {str(key): cell for key, cell in zip(value.index, value.tolist(), strict=True)}}
    about |= {"columns": value.columns.name, "column type": str(value.columns.dtype)}
    cells = {
        str((key, name)): cell for name in value for key, cell in zip(value.index, value[name].tolist(), strict=True)
    }
    return about | {"cells": cells}


if __name__ == "__main__":
    main(*sys.argv[1:])
