#!/usr/bin/python3
"""Draws the cost of the vPort protocol against the number of agents, out of what `scale_bench` wrote.

scale_plot.py INPUT.json OUTPUT.svg
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "eoib"  # the same figures give the same file
matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text, which keeps the file small
import matplotlib.pyplot as plt  # noqa: E402

AGENTS = [10, 30, 100, 300, 1000]
EVENTS = {"cold_start": "#1b6ca8", "join": "#c8553d", "restart": "#6a994e", "move": "#888888"}
PANELS = [
    ("group_messages", "messages to the group"),
    ("unicast_messages", "messages to one agent"),
    ("converged", "ms until all views are right"),
    ("cpu", "processor time of an engine, us"),
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        series = json.load(file)["series"]
    figure, axes = plt.subplots(1, len(PANELS), figsize=(15, 3.6))
    for axis, (panel, title) in zip(axes, PANELS):
        for event, color in EVENTS.items():
            for infix, style, loss in (("_", "-", ""), ("_lossy_", "--", ", 1 % lost")):
                medians = [series[f"{event}{infix}{agents}_{panel}"]["median"] for agents in AGENTS]
                axis.plot(AGENTS, medians, marker="o", markersize=3, color=color, linestyle=style, label=event + loss)
        axis.set_xscale("log")
        axis.set_yscale("symlog")
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("agents")
        axis.grid(True, which="major", alpha=0.3)
    axes[-1].legend(fontsize=8, bbox_to_anchor=(1.02, 1), loc="upper left")
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
