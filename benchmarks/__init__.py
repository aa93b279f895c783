"""What crowdbeam costs beside other programs: `python -m benchmarks` (or `make bench`)."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "bench"
