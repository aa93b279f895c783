import subprocess
import sys
from importlib.util import find_spec

import pytest

LEFT_OUT = ["pymongo", "pandas", "google.cloud.pubsub", "apache_beam.io.gcp.bigquery"]
# What `crowdbeam aggregate` imports, and then Arrow's own look for pandas.
PROGRAM = """
import sys
from pipelines.lean import start_lean
start_lean(streams=False, embedded={embedded})
import pipelines.batch, pipelines.summary, numpy, pyarrow
pyarrow.array(numpy.arange(3))
print(*(name for name in {names} if name in sys.modules))
"""


def imported(embedded):
    program = PROGRAM.format(embedded=embedded, names=LEFT_OUT)
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()


def test_a_batch_imports_nothing_that_it_does_not_use():
    assert imported(embedded=True) == []


def test_other_runners_may_look_for_their_sources_and_sinks():
    assert imported(embedded=False) == ["apache_beam.io.gcp.bigquery"]


@pytest.mark.parametrize("name", LEFT_OUT[1:])
def test_the_libraries_left_out_are_installed_here(name):
    """Else the first test would show nothing."""
    assert find_spec(name) is not None


def test_parts_of_numpy_run_when_they_are_used():
    program = """
import sys
from pipelines.lean import start_lean
start_lean(streams=False, embedded=True)
import scipy.sparse, numpy
print("unittest" in sys.modules, "numpy.polynomial.polynomial" in sys.modules)
print(numpy.polynomial.Polynomial([1, 2])(3))
from numpy.testing import assert_array_equal
assert_array_equal([1], [1])
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False", "7.0"]


def test_threads_that_begin_at_once_find_all_of_numpy():
    """Arrow looks at numpy.ma in whatever thread first makes an array."""
    program = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from pipelines.lean import start_lean
start_lean(streams=False, embedded=True)
import numpy, pyarrow, scipy.sparse
gate = Barrier(8)
def make(n):
    gate.wait()
    return len(pyarrow.array(numpy.arange(n)))
with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(make, range(8))))
"""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        assert done.stdout == "28\n"
