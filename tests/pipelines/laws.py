"""The laws of every CombineFn: splitting, order and empty parts change nothing."""

import itertools


def assert_combines_freely(combine_fn, inputs, read=lambda output: output):
    """Puts a CombineFn through every order and several splittings of `inputs`; `read` makes outputs comparable."""

    def added(parts):
        total = combine_fn.create_accumulator()
        for part in parts:
            total = combine_fn.add_input(total, part)
        return total

    expected = read(combine_fn.extract_output(added(inputs)))
    for order in itertools.permutations(inputs):
        assert read(combine_fn.extract_output(added(order))) == expected
        for cut in range(len(order) + 1):
            parts = [added(order[:cut]), combine_fn.create_accumulator(), added(order[cut:])]
            merged = combine_fn.merge_accumulators(parts)
            assert read(combine_fn.extract_output(combine_fn.compact(merged))) == expected
    return expected
