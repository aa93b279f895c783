"""The job that would be sent to Dataflow, built by the SDK alone: run in the environment of apache-beam[gcp].

Arguments: a file of labels, a folder to work in. Written there: pipeline.pb and job.json, as Dataflow would get them.
"""

import sys
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions

from pipelines.batch import BatchPlan, build
from pipelines.inputs import plan_inputs
from pipelines.runners import is_in_process, options_of
from pipelines.settings import AggregateSettings, BatchSettings

FLAGS = (
    "--runner=DataflowRunner", "--project=crowd-project", "--region=europe-west1", "--job_name=crowd-night",
    "--temp_location=gs://crowd-bucket/temp", "--sdk_container_image=example/crowdbeam:1", "--num_workers=3",
    "--service_account_email=runner@crowd-project.iam.gserviceaccount.com", "--no_auth", "--dry_run=true",
)  # fmt: skip


def main(labels, folder):
    from apache_beam.runners.dataflow.internal import apiclient

    options = options_of(FLAGS)
    settings = BatchSettings((labels,), "gs://crowd-bucket/run", AggregateSettings(shards=2))
    pipeline = beam.Pipeline(options=options)
    staging = "gs://crowd-bucket/run/_staging"
    build(pipeline, BatchPlan(settings, plan_inputs(settings), {}, staging, is_in_process(options)))
    job = pipeline.run().job
    for view in (job.google_cloud_options, job.options.view_as(GoogleCloudOptions)):
        view.staging_location = str(folder)  # files that Beam would send stay here
    apiclient.DataflowApplicationClient(job.options).create_job_description(job)
    (folder / "job.json").write_text(job.json(), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
