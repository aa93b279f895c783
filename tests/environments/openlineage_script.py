"""Run beside OpenLineage's own client: makes its classes from an event, and says what the client makes of them.

The classes take no field they do not know; each facet's schema must be the one of its class.
"""

import json
import sys
from pathlib import Path

from openlineage.client import event_v2, facet_v2
from openlineage.client.naming import dataset as naming
from openlineage.client.serde import Serde

FACETS = {
    "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet,
    "crowdbeam_run": facet_v2.RunFacet,
    "jobType": facet_v2.job_type_job.JobTypeJobFacet,
    "schema": facet_v2.schema_dataset.SchemaDatasetFacet,
    "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet,
    "inputStatistics": facet_v2.input_statistics_input_dataset.InputStatisticsInputDatasetFacet,
    "outputStatistics": facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
}


def facets(given):
    return {name: facet(name, content) for name, content in given.items()}


def facet(name, content):
    kind, rest = FACETS[name], dict(content)
    producer, url = rest.pop("_producer"), rest.pop("_schemaURL")
    if url != kind._get_schema():
        raise ValueError(f"{name} names the schema {url}, the client {kind._get_schema()}")
    if name == "crowdbeam_run":  # of our own: it may hold what it likes
        return kind(producer=producer).with_additional_properties(**rest)
    if name == "schema":
        rest["fields"] = [
            facet_v2.schema_dataset.SchemaDatasetFacetFields(**{"fields": None, **one}) for one in rest["fields"]
        ]
    return kind(**rest, producer=producer)


def dataset(kind, given, own):
    return kind(**{**given, "facets": facets(given["facets"]), own: facets(given[own])})


def event_of(given):
    given = dict(given)
    url = given.pop("schemaURL")
    made = event_v2.RunEvent(
        **{
            **given,
            "eventType": event_v2.RunState(given["eventType"]),
            "run": event_v2.Run(**{**given["run"], "facets": facets(given["run"]["facets"])}),
            "job": event_v2.Job(**{**given["job"], "facets": facets(given["job"]["facets"])}),
            "inputs": [dataset(event_v2.InputDataset, one, "inputFacets") for one in given["inputs"]],
            "outputs": [dataset(event_v2.OutputDataset, one, "outputFacets") for one in given["outputs"]],
        }
    )
    if url != made.schemaURL:
        raise ValueError(f"the event names the schema {url}, the client {made.schemaURL}")
    return Serde.to_dict(made)


def tried(given):
    """The event, or what the client has against it."""
    try:
        return event_of(given)
    except (TypeError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"


def main():
    given = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    found = {"events": [tried(event) for event in given.get("events", [])], "names": []}
    for kind, arguments in given.get("names", []):
        name = getattr(naming, kind)(**arguments)
        found["names"].append([name.get_namespace(), name.get_name()])
    Path(sys.argv[2]).write_text(json.dumps(found), "utf-8")


main()
