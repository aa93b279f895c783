"""Beam YAML, for real: the example pipeline in an environment with apache-beam[yaml], on FnApiRunner."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from beam_environments import ROOT, run_python
from command_line import crowd_rows, run_command, write_rows

from pipelines.errors import InvalidSettingError
from pipelines.yaml_provider import AggregateLabels, settings_of

EXAMPLE = ROOT / "examples" / "yaml" / "csv_to_parquet.yaml"
PAGE = (ROOT / "docs" / "beam-yaml.md").read_text("utf-8")
HEADER = ["task", "worker", "label"]
ODD = [("007", "w1", "c1"), ("007", "NA", "c1"), ("007", "w1", "c2"), ("", "w1", "c0")]
ALL_OUTPUTS = """
pipeline:
  transforms:
    - {type: ReadFromCsv, name: Labels, config: {path: LABELS, dtype: str, keep_default_na: false}}
    - {type: ReadFromCsv, name: Gold, config: {path: GOLD, dtype: str, keep_default_na: false}}
    - {type: AggregateLabels, input: {labels: Labels, gold: Gold}, config: {classes: [c0, c1, c2]}}
"""


def run_yaml(python, *argv):
    return run_python(python, "-m", "apache_beam.yaml.main", *argv, "--runner=FnApiRunner")


def rows_of(folder, name):
    tables = [pq.read_table(path) for path in sorted(folder.glob(f"{name}-*"))]
    return in_order(pa.concat_tables(tables).to_pylist(maps_as_pydicts="strict"))


def in_order(rows):
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def run_example(python, labels, folder):
    variables = json.dumps({"labels": str(labels), "output": str(folder)})
    done = run_yaml(python, f"--yaml_pipeline_file={EXAMPLE}", f"--jinja_variables={variables}")
    assert done.returncode == 0, done.stderr[-4000:]


def test_the_example_gives_the_rows_of_the_command(beam_yaml, tmp_path):
    labels = write_rows(tmp_path / "labels.csv", HEADER, [*crowd_rows(), *ODD[:2]])
    run_example(beam_yaml, labels, tmp_path / "yaml")
    run = run_command(
        "aggregate", labels, "--output", tmp_path / "run", "--min-labels", 2, "--probabilities", folder=tmp_path / "run"
    )
    assert run.code == 0
    for name in ("scores", "skills"):
        assert rows_of(tmp_path / "yaml", name) == in_order(run.rows(name))
    assert "007" in {row["task"] for row in rows_of(tmp_path / "yaml", "scores")}


def test_two_inputs_and_all_outputs(beam_yaml, tmp_path):
    labels = write_rows(tmp_path / "labels.csv", HEADER, [*crowd_rows(), ODD[3], ("t01", "w1", "other")])
    gold = write_rows(tmp_path / "gold.csv", ["task", "label"], [("t03", "c1"), ("t04", "c2")])
    spec = ALL_OUTPUTS.replace("LABELS", str(labels)).replace("GOLD", str(gold))
    for name in ("scores", "skills", "edges", "graph", "rejects"):
        config = f"{{path: {tmp_path}/yaml/{name}, file_name_suffix: .parquet}}"
        spec += f"    - {{type: WriteToParquet, name: {name}, input: AggregateLabels.{name}, config: {config}}}\n"
    spec += f"providers:\n  - include: {ROOT}/examples/yaml/providers.yaml\n"
    (tmp_path / "all.yaml").write_text(spec, "utf-8")
    done = run_yaml(beam_yaml, f"--yaml_pipeline_file={tmp_path}/all.yaml")
    assert done.returncode == 0, done.stderr[-4000:]
    argv = ("aggregate", labels, "--output", tmp_path / "run", "--gold", gold, "--classes", "c0,c1,c2")
    run = run_command(*argv, folder=tmp_path / "run")
    for name in ("scores", "skills", "edges", "graph"):
        assert rows_of(tmp_path / "yaml", name) == in_order(run.rows(name))
    why = [row["reason"] for row in rows_of(tmp_path / "yaml", "rejects")]
    assert sorted(why) == sorted(row["reason"] for row in run.rows("rejects"))
    assert sorted(why) == ["label-not-in-classes", "missing-task"]


def test_a_bad_config_is_told_with_its_line_before_anything_runs(beam_yaml, tmp_path):
    labels = write_rows(tmp_path / "labels.csv", HEADER, crowd_rows())
    spec = EXAMPLE.read_text("utf-8").replace("min_labels: 2", "min_label: 2")
    spec = spec.replace("{{ labels }}", str(labels)).replace("{{ output }}", str(tmp_path / "yaml"))
    spec = spec.replace("include: providers.yaml", f"include: {ROOT}/examples/yaml/providers.yaml")
    (tmp_path / "bad.yaml").write_text(spec, "utf-8")
    done = run_yaml(beam_yaml, f"--yaml_pipeline_file={tmp_path}/bad.yaml")
    assert done.returncode != 0
    assert "min_label is no setting of AggregateLabels; did you mean min_labels?" in done.stderr
    assert not (tmp_path / "yaml").exists()


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"min_labels": 0}, "min_labels is 0; it takes a number of at least 1."),
        ({"min_labels": "2"}, "min_labels is '2'; it takes a whole number."),
        ({"min_labels": True}, "min_labels is True; it takes a whole number."),
        ({"confidence": "high"}, "confidence is 'high'; it takes a number."),
        ({"probabilities": 1}, "probabilities is 1; it takes true or false."),
        ({"classes": [True, False]}, "quote them"),
        ({"classes": "yes,no"}, "it takes a list of texts"),
        ({"class_prior": "yes=0.2"}, "it takes a mapping from class to frequency"),
        ({"method": "majority", "solver": "paper"}, "solver has no part in method majority"),
    ],
)
def test_settings_that_cannot_be_used_are_told_by_their_names_in_yaml(config, told):
    with pytest.raises(InvalidSettingError, match=re.escape(told)):
        AggregateLabels(**config)


def test_settings_arrive():
    found = settings_of({"classes": ["a", "b"], "class_prior": {"a": 0.2, "b": 0.8}, "confidence": 0.5, "seed": None})
    assert (found.classes, found.class_prior, found.confidence) == (("a", "b"), (("a", 0.2), ("b", 0.8)), 0.5)


def test_the_page_shows_the_example_and_what_it_gives(beam_yaml, tmp_path):
    assert EXAMPLE.read_text("utf-8") in PAGE
    (tmp_path / "labels.csv").write_text(re.search(r"```csv\n(.*?)```", PAGE, re.S)[1], "utf-8")
    run_example(beam_yaml, tmp_path / "labels.csv", tmp_path / "yaml")
    assert shown(tmp_path / "yaml") in PAGE


def shown(folder):
    """Some columns of the answers and skills, as the page has them."""
    lines = ["task  answer  probability  status"]
    lines += [
        f"{r['task']:<6}{r['label']:<8}{r['probability']:.3f}        {r['status']}" for r in rows_of(folder, "scores")
    ]
    lines += ["", "worker  skill   labels"]
    lines += [f"{r['worker']:<8}{r['skill']:6.3f}  {r['n_labels']:6d}" for r in rows_of(folder, "skills")]
    return "\n".join(lines)
