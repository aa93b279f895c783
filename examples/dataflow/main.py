"""What the flex template's launcher runs: the template's parameters become a run of `crowdbeam aggregate`."""

import sys

from pipelines.detached import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
