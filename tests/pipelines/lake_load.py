"""Loads a run into Iceberg and dies at a commit: python lake_load.py RUN CATALOG NAMESPACE COMMIT before|after."""

import os
import signal
import sys

from pyiceberg.catalog.sql import SqlCatalog

from pipelines.sinks.iceberg import IcebergWarehouse
from pipelines.sinks.loads import loaded_run_of


def main(folder, catalog, namespace, fatal, when):
    commit, done = SqlCatalog.commit_table, []

    def deadly(self, *given):
        done.append(1)
        if len(done) == int(fatal) and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        found = commit(self, *given)
        if len(done) == int(fatal):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    SqlCatalog.commit_table = deadly
    IcebergWarehouse(catalog, namespace).load(loaded_run_of(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
