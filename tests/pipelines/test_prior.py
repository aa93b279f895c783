"""Prior skills come from a finished run or from a file; what cannot be a skill is told before anything runs."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_files import avro_bytes, csv_bytes, jsonl_bytes

from pipelines.batch import run
from pipelines.errors import InputError
from pipelines.prior import read_prior_skills
from pipelines.settings import BatchSettings

SKILLS = {"ann": 0.5, "bob": -1.0, "a,b\né": 0.25}
NAMES = ("worker", "skill")
AS_TEXT = [(worker, str(skill)) for worker, skill in SKILLS.items()]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.csv", csv_bytes(AS_TEXT, NAMES)),
        ("x.jsonl", jsonl_bytes(list(SKILLS.items()), NAMES)),
        ("x.avro", avro_bytes(list(SKILLS.items()), NAMES, types={"worker": "string", "skill": "double"})),
        ("more.csv", b'id,skill,worker\n1,0.5,ann\n2,-1,bob\n3,0.25,"a,b\n\xc3\xa9"\n'),
    ],
)
def test_skills_are_read_from_any_format(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert read_prior_skills(str(tmp_path / name)) == SKILLS


def test_skills_are_read_from_parquet_and_from_several_files_the_last_counts(tmp_path):
    pq.write_table(pa.table({"worker": [1, 2], "skill": pa.array([0.5, 1], pa.float32())}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"skill": [0.25], "worker": ["2"]}), tmp_path / "b.parquet")
    assert read_prior_skills(str(tmp_path)) == {"1": 0.5, "2": 0.25}


@pytest.mark.parametrize("kind", ["parquet", "avro", "csv", "jsonl"])
def test_skills_are_read_from_a_finished_run(tmp_path, kind):
    rows = [
        (f"t{task}", worker, str((task * n) % 2)) for task in range(6) for n, worker in enumerate(("ann", "bob", "cem"))
    ]
    (tmp_path / "labels.csv").write_bytes(csv_bytes(rows))
    run(BatchSettings((str(tmp_path / "labels.csv"),), str(tmp_path / "run"), output_format=kind))
    skills = read_prior_skills(str(tmp_path / "run"))
    assert skills.keys() == {"ann", "bob", "cem"}
    assert skills == read_prior_skills(str(tmp_path / "run" / "skills"))


def test_no_path_is_no_skills():
    assert read_prior_skills("") == {}


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("x.csv", b"worker,skil\nann,1\n", "0 columns called 'skill'"),
        ("x.csv", b"worker,skill,skill\nann,1,1\n", "2 columns called 'skill'"),
        ("x.csv", b"worker,skill\nann,85\n", "the skill 85; skills are numbers from -1 to 1"),
        ("x.csv", b"worker,skill\nann,nan\n", "the skill nan"),
        ("x.csv", b"worker,skill\nann,\n", "missing or no number"),
        ("x.csv", b"worker,skill\nann,good\n", "missing or no number"),
        ("x.csv", b"worker,skill\nbob,1\n,1\n", "record 1: the worker is missing"),
        ("x.csv", b"worker,skill\nbob,1\nann\n", "record 1: The line has 1 values; the header has 2."),
        ("x.csv", b"worker,skill\n", "holds no skills"),
        ("x.csv", b"", "holds no skills"),
        ("x.jsonl", b"[]", "cannot be read as jsonl"),
        ("x.parquet", b"PAR1", "cannot be read as parquet"),
        ("x.txt", b"worker,skill\n", "none of the known endings"),
    ],
)
def test_what_is_no_skill_is_told(tmp_path, name, data, sentence):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=r"^--prior-skills") as caught:
        read_prior_skills(str(tmp_path / name))
    assert sentence in str(caught.value)


def test_a_path_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match=r"--prior-skills .* names no file"):
        read_prior_skills(str(tmp_path / "nowhere"))
