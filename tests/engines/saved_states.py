"""Savepoints of earlier layouts of the stream's state; run as a script to write that of the layout of today.

``python tests/engines/saved_states.py FOLDER`` writes ``savepoints/layout-N.tar.gz``: once for each layout, before it
changes. Flink notes in a savepoint where it was written: FOLDER should say nothing of the machine, as /srv/savepoints.
"""

import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FOLDER = HERE / "savepoints"
N_FIRST, N_EVENTS = 2000, 6000
TOPIC = "saved"


def history():
    """All events, and those that the savepoints hold already."""
    from stream_runs import make_events

    events = make_events(N_EVENTS, n_workers=40)
    return events, events.part(slice(N_FIRST))


def unpacked(name, folder):
    """The path of a savepoint, for ``--savepoint_path``."""
    with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / name


def _made(folder, target):
    """A stream has read the first events, and is stopped at a savepoint before it has settled."""
    from fault_runs import Scene, running_job
    from stream_runs import produce

    from engines.flink import Flink
    from engines.kafka import Kafka
    from engines.postgres import Postgres

    with Kafka(folder / "kafka") as kafka, Postgres(folder / "postgres") as postgres, Flink(folder / "flink") as flink:
        scene = Scene(TOPIC, kafka, postgres, folder)
        produce(kafka.bootstrap, TOPIC, history()[1])
        with scene.stream([*flink.beam_args(), "--settle-after", "1h"]) as run:
            run.wait(lambda status: status["events"] == N_FIRST and status["model_version"], "a model")
            return flink.stop_with_savepoint(running_job(flink), target)


def _plain(member):
    """Without the names and numbers of this machine."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]
    from pipelines.streaming.kept import LAYOUT

    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        savepoint = _made(Path(folder), Path(sys.argv[1]))
        with tarfile.open(FOLDER / f"layout-{LAYOUT}.tar.gz", "w:gz") as archive:
            archive.add(savepoint, f"layout-{LAYOUT}", filter=_plain)
