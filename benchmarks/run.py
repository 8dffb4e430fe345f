"""`make bench`: speed as ratios to a peer measured in the same run, and cost against size.

python benchmarks/run.py [PART ...] [--quick]
"""

from __future__ import annotations

import argparse
import importlib

PARTS = (
    "tabular",
    "tiles",
    "deep",
    "sac",
    "study",
    "limits",
    "baselines",
    "exact",
    "worlds",
    "forecasts",
    "risk",
    "learnt",
    "costs",
    "horizon",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", metavar="part", help=f"which of {', '.join(PARTS)}; all that exist by default"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for part in arguments.parts or PARTS:
        try:
            module = importlib.import_module(part)
        except ModuleNotFoundError as error:
            if error.name != part:
                print(f"{part}: skipped, {error.name} is not installed")
            continue
        module.main(quick=arguments.quick)


if __name__ == "__main__":
    main()
