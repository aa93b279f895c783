"""Files of labels read without a pipeline: for commands that look at labels in this process."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

from pipelines.blocks import LabelBlock, split_block
from pipelines.inputs import plan_inputs
from pipelines.records import Origin, parse_chunk
from pipelines.settings import BatchSettings
from pipelines.sources.formats import chunks_of


@dataclass(frozen=True)
class LabelFiles:
    """What files of labels hold: the blocks of each shard of the tasks, and the counts of `pipelines.counts`."""

    by_shard: dict[int, list[LabelBlock]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)


def read_blocks(settings: BatchSettings) -> LabelFiles:
    """All labels of `settings.inputs`, split into `settings.aggregate.shards` shards; what is no label is counted."""
    found = LabelFiles()
    with TemporaryDirectory(prefix="crowdbeam-inputs-") as folder:
        for part in plan_inputs(settings, folder).parts:
            for lazy in chunks_of(part):
                parsed = parse_chunk(lazy(), Origin(part.source, part.name, part.role), settings.aggregate.classes)
                found.counts.update(parsed.counts)
                if parsed.block is not None:
                    for number, piece in split_block(parsed.block, settings.aggregate.shards):
                        found.by_shard[number].append(piece)
    return found
