-- Rows here are pairs of workers that the current table of edges holds more than once.
select worker_a, worker_b, count(*) as n_rows
from {{ source('crowdbeam', 'edges') }}
group by worker_a, worker_b
having count(*) > 1
