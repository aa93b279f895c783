"""Topics of a sink: made when they are missing, looked at when they are there."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.errors import InputError, InvalidSettingError
from pipelines.kafka_client import kafka_library


def make_topics(client: Mapping[str, Any], policies: Mapping[str, str], partitions: int, timeout_s: float) -> None:
    """Makes each topic with its clean-up policy; one that is there and should be compacted must be.

    Raises `InputError` when the cluster does not answer, `InvalidSettingError` when a topic cannot be made or used.
    """
    kafka = kafka_library()
    servers = client["bootstrap.servers"]
    try:
        admin = kafka.admin.AdminClient({"log_level": 2, **client})
        known = set(admin.list_topics(timeout=timeout_s).topics)
    except kafka.KafkaException as error:
        raise InputError(
            f"Kafka at {servers} does not answer: {error.args[0].str()}. "
            "See that a broker runs there and that this machine may reach it."
        ) from error
    _create(admin, {topic: policy for topic, policy in policies.items() if topic not in known}, partitions, timeout_s)
    to_check = [topic for topic, policy in policies.items() if topic in known and policy == "compact"]
    for topic, policy in _policies(admin, to_check, timeout_s).items():
        if "compact" not in policy:
            raise InvalidSettingError(
                f"Topic {topic} has cleanup.policy={policy}: Kafka would delete answers after a while. "
                f"Change it: kafka-configs.sh --bootstrap-server {servers} --alter "
                f"--entity-type topics --entity-name {topic} --add-config cleanup.policy=compact"
            )


def _create(admin: Any, policies: Mapping[str, str], partitions: int, timeout_s: float) -> None:
    kafka = kafka_library()
    topics = [
        kafka.admin.NewTopic(topic, num_partitions=partitions, replication_factor=-1, config={"cleanup.policy": policy})
        for topic, policy in policies.items()
    ]
    if not topics:
        return
    for topic, answer in admin.create_topics(topics, request_timeout=timeout_s).items():
        error = answer.exception()
        if error is None:
            continue
        if not isinstance(error, kafka.KafkaException):
            raise error
        if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:  # another run made it just now
            raise InvalidSettingError(
                f"Topic {topic} cannot be made: {error.args[0].str()}. Make it with cleanup.policy={policies[topic]}, "
                "or give this user the right to."
            ) from error


def _policies(admin: Any, topics: Sequence[str], timeout_s: float) -> dict[str, str]:
    """The clean-up policies of topics that are there; without those that this user may not see."""
    kafka = kafka_library()
    resources = [kafka.admin.ConfigResource(kafka.admin.ConfigResource.Type.TOPIC, topic) for topic in topics]
    found = {}
    for resource, answer in (admin.describe_configs(resources, request_timeout=timeout_s) if topics else {}).items():
        error = answer.exception()
        if isinstance(error, kafka.KafkaException):
            logging.getLogger(__name__).warning(
                "Whether topic %s is compacted cannot be seen: %s.", resource.name, error.args[0].str()
            )
        else:
            found[resource.name] = str(answer.result()["cleanup.policy"].value)
    return found
