"""The labels of each day into the warehouse, every night: a DAG for Airflow 2.x and 3.x.

Labels are expected in one folder a day, below $CROWDBEAM_LABELS. A night whose result a gate finds wanting commits
nothing, fails at once and holds up the nights after it until somebody has looked: clear the task to try it again. A day
without new labels is skipped; one whose folder is missing or holds no file is an error, for the path may be wrong.
Everything else that goes wrong is tried three more times: a night that is run again changes nothing that it had done.
"""

# mypy: disable-error-code="import-not-found"
import os
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any

from airflow.timetables.interval import CronDataIntervalTimetable

try:  # Airflow 3
    from airflow.providers.standard.hooks.subprocess import SubprocessHook
    from airflow.providers.standard.operators.bash import BashOperator
    from airflow.sdk import DAG
except ImportError:  # Airflow 2
    from airflow import DAG
    from airflow.hooks.subprocess import SubprocessHook
    from airflow.operators.bash import BashOperator
try:
    from airflow.sdk.exceptions import AirflowFailException
except ImportError:
    from airflow.exceptions import AirflowFailException

LABELS = os.environ.get("CROWDBEAM_LABELS", "/data/labels")
LEDGER = os.environ.get("CROWDBEAM_LEDGER", "/data/crowd-ledger")
OUTPUT = os.environ.get("CROWDBEAM_OUTPUT", "postgresql://crowdbeam@warehouse:5432/crowd")  # the password: PGPASSWORD
DBT_PROJECT = os.environ.get("CROWDBEAM_DBT", "/data/dbt")

GATE_TRIPPED = range(10, 20)
NO_NEW_LABELS = 20

NIGHTLY = f"""
crowdbeam nightly '{LABELS}/{{{{ data_interval_start | ds }}}}' \\
  --ledger '{LEDGER}' --output '{OUTPUT}' --quiet \\
  --fail-if 'unidentified-share>0.05' --fail-if 'rejects-share>0.01' --fail-if 'skill-drift>0.2' \\
  --fail-if torn-inputs --fail-if no-new-labels
"""


class _GatedHook(SubprocessHook):
    """Runs a command; a gate that tripped would trip again, so it is not tried again."""

    def run_command(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the command."""
        result = super().run_command(*args, **kwargs)
        if result.exit_code in GATE_TRIPPED:
            raise AirflowFailException(f"A gate has tripped (exit code {result.exit_code}); nothing was committed.")
        return result


class CrowdbeamOperator(BashOperator):
    """A `crowdbeam` command, whose exit codes fail the task, skip it, or have it tried again."""

    @cached_property
    def subprocess_hook(self) -> SubprocessHook:
        """What runs the command."""
        return _GatedHook()


with DAG(
    dag_id="crowdbeam_nightly",
    description="The labels of the day into skills, answers and the warehouse",
    schedule=CronDataIntervalTimetable("0 2 * * *", timezone="UTC"),  # at two, for the day before
    start_date=datetime(2026, 1, 1, 2, tzinfo=timezone.utc),
    catchup=True,  # nights that were missed are made up for
    max_active_runs=1,  # a ledger takes one run at a time, and refuses a second
    default_args={"depends_on_past": True, "retries": 3, "retry_delay": timedelta(minutes=10)},
    doc_md=__doc__,
) as dag:
    nightly = CrowdbeamOperator(
        task_id="nightly",
        bash_command=NIGHTLY,
        skip_on_exit_code=NO_NEW_LABELS,
        execution_timeout=timedelta(hours=3),
    )
    build_models = BashOperator(task_id="build_models", bash_command=f"dbt build --project-dir '{DBT_PROJECT}'")
    nightly >> build_models
