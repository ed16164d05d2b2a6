#!/usr/bin/python3
"""Draws what two hosts can have over each network, out of what `net_bench` wrote.

net_plot.py INPUT.json OUTPUT.svg
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "eoib"  # the same figures give the same file
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt  # noqa: E402

PATHS = {
    "eoib": "#1b6ca8",
    "eoib_ib2048": "#3f8cc4",
    "eoib_1500": "#6fa8d6",
    "eoib_9000": "#9bc2e3",
    "vxlan": "#c8553d",
    "vxlan_wire": "#d98f7f",
    "vxlan_wire_1500": "#e6bfb6",
    "ovs": "#6a994e",
    "veth": "#888888",
}
PANELS = [
    ("tcp1", "one TCP stream, Gb/s"),
    ("tcp4", "four TCP streams, Gb/s"),
    ("udp64", "64-byte datagrams delivered, thousands/s"),
    ("ping_avg", "ping -f, mean us (log)"),
    ("rr_p50", "request-response, median us (log)"),
    ("cpu_per_gb", "processor seconds a GB (log)"),
]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        series = json.load(file)["series"]
    figure, axes = plt.subplots(2, 3, figsize=(14, 6))
    for axis, (panel, title) in zip(axes.flat, PANELS):
        values = [series[f"{panel}_{path}"] for path in PATHS]
        medians = [value["median"] for value in values]
        below = [value["median"] - value["min"] for value in values]
        above = [value["max"] - value["median"] for value in values]
        axis.barh(list(PATHS), medians, xerr=[below, above], color=list(PATHS.values()), ecolor="#333333")
        axis.invert_yaxis()
        if "(log)" in title:
            axis.set_xscale("log")
        axis.set_title(title, fontsize=10)
        axis.grid(True, axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
