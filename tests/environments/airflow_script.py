"""Run in Airflow's environment: imports the DAG as Airflow's own DagBag does, and says what is in it.

Arguments: a JSON file with the DAG's file and commands to run by its operator, and a JSON file to write.
"""

import json
import sys
from datetime import datetime, timezone
from pathlib import Path

import airflow

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:
    from airflow.models import DagBag


def ended(operator, command, **settings):
    """How a command ends under the operator: the class of the exception, or what it printed last."""
    try:
        return operator(task_id="tried", bash_command=command, **settings).execute({})
    except airflow.exceptions.AirflowException as error:
        return type(error).__name__


def main():
    given = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    bag = DagBag(dag_folder=given["dag"])
    found = {"version": airflow.__version__, "errors": list(bag.import_errors.values()), "tasks": {}}
    dag = bag.dags["crowdbeam_nightly"]
    found |= {"catchup": dag.catchup, "max_active_runs": dag.max_active_runs}
    for task in dag.tasks:
        found["tasks"][task.task_id] = {
            "retries": task.retries,
            "depends_on_past": task.depends_on_past,
            "skip_on": list(task.skip_on_exit_code),
            "before": sorted(task.upstream_task_ids),
        }
    nightly = dag.get_task("nightly")
    day = datetime(2026, 11, 17, 2, tzinfo=timezone.utc)
    found["command"] = nightly.render_template(nightly.bash_command, {"data_interval_start": day})
    night = dag.timetable.infer_manual_data_interval(run_after=_moment(2026, 11, 18, 2, 30))
    found["night"] = [night.start.isoformat(), night.end.isoformat()]
    operator, skip = type(nightly), nightly.skip_on_exit_code
    found["ended"] = [ended(operator, command, skip_on_exit_code=list(skip)) for command in given["commands"]]
    Path(sys.argv[2]).write_text(json.dumps(found), "utf-8")


def _moment(*parts):
    import pendulum

    return pendulum.datetime(*parts, tz="UTC")


main()
