"""Loads a run and dies at a point: python load_and_die.py RUN WAREHOUSE POINT,… CALL before|after.

With CALL 0 it lives, and prints how many calls there were.
"""

import sys

from kill_points import watch

from pipelines.sinks.loads import loaded_run_of
from pipelines.sinks.warehouses import warehouse_of


def main(folder, to, points, call, when):
    names = points.split(",")
    calls = watch(names, names, int(call), when == "after")
    warehouse_of(to).load(loaded_run_of(folder))
    sys.stdout.write(str(sum(calls.values())))


if __name__ == "__main__":
    main(*sys.argv[1:])
