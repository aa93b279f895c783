-- The answers that need no second look, each with the night that gave it.
select
    scores.task,
    scores.label,
    scores.probability,
    scores.n_workers,
    scores.status = 'gold' as is_gold,
    runs.run_id,
    runs.finished_at_us
from {{ source('crowdbeam', 'scores') }} as scores
inner join {{ source('crowdbeam', 'runs') }} as runs on runs.run_id = scores.run_id
where scores.status in ('ok', 'gold')
    and scores.probability >= {{ var('least_probability') }}
