#!/usr/bin/python3
"""Draws lookups against size for all tables, out of what `fdb_bench --full` wrote.

fdb_plot.py INPUT.json OUTPUT.svg
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "eoib"  # the same figures give the same file
import matplotlib.pyplot as plt  # noqa: E402

SIZES = {"1k": 1e3, "100k": 1e5, "1M": 1e6, "10M": 1e7}
TABLES = {"eoib": "#1b6ca8", "absl": "#c8553d", "rte_hash": "#6a994e", "limit": "#888888"}
PANELS = [
    ("hit_batch", "hits, batches of 32"),
    ("miss_batch", "misses, batches of 32"),
    ("zipf_batch", "Zipf 0.99, batches of 32"),
    ("hit_single", "hits, one by one"),
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    figure, axes = plt.subplots(1, len(PANELS), figsize=(14, 3.6), sharey=True)
    for axis, (panel, title) in zip(axes, PANELS):
        for table, color in TABLES.items():
            points = [
                (entries, report["series"][f"{table}_{panel}_{size}"]["median"])
                for size, entries in SIZES.items()
                if f"{table}_{panel}_{size}" in report["series"]
            ]
            if points:
                axis.plot(*zip(*points), marker="o", color=color, label=table, linestyle="--" if table == "limit" else "-")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("entries")
        axis.grid(True, which="major", alpha=0.3)
    axes[0].set_ylabel("million lookups a second")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
