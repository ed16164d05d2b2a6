#!/usr/bin/env python3
"""Draws a flame graph of each process of interest from a recording of perf, and prints the share of all cores of each process.

    perf script -i PREFIX.data -F comm,pid,ip,sym,dso | flamegraph.py PREFIX DIRECTORY ROLE...

PREFIX.pids names the processes, PREFIX.json says when and where. A graph is DIRECTORY/ROLE.svg: the width of a box is the
share of that process's samples with this call path, the kernel's functions included. Shares below half a percent are left out.
"""
import collections
import html
import json
import re
import sys

SMALLEST = 0.005
WIDTH, ROW, CHARACTER = 1200, 16, 6.7
KERNEL, OURS, LIBRARY = "#e8935a", "#7fb5d5", "#e6cf6b"


def short(symbol):
    """The name of a C++ function without namespaces that say nothing, arguments and template arguments."""
    symbol = symbol.replace("(anonymous namespace)::", "").replace("operator()", "call")
    before = None
    while before != symbol:
        before, symbol = symbol, re.sub(r"<[^<>]*>|\([^()]*\)|\{[^{}]*\}", "", symbol)
    symbol = symbol.replace(" const", "").split(" ")[-1]
    return re.sub(r"eoib::|absl::debian\d+::|softhca::", "", symbol).replace("::::", "::")


def samples(lines):
    """(pid, call path from the outermost function on), each function (name, colour)."""
    pid, path = None, []
    for line in lines:
        words = line.split()
        if not words:
            if pid is not None:
                yield pid, tuple(reversed(path))
            pid, path = None, []
        elif not line[0].isspace():
            pid = int(words[-1])
        else:
            symbol, _, where = line.strip().split(" ", 1)[1].rpartition(" ")
            colour = KERNEL if where.startswith("([") else OURS if where.endswith("/eoibd)") else LIBRARY
            if symbol != "[unknown]":
                path.append((short(symbol), colour))


class Box:
    def __init__(self):
        self.count = 0
        self.inner = collections.defaultdict(Box)

    def add(self, path):
        self.count += 1
        if path:
            self.inner[path[0]].add(path[1:])

    def depth(self, least):
        return 1 + max((box.depth(least) for box in self.inner.values() if box.count >= least), default=0)

    def draw(self, name, colour, x, y, scale, total, out):
        width, share = self.count * scale, 100 * self.count / total
        room = int((width - 4) / CHARACTER)
        text = name if len(name) <= room else name[: room - 1] + "…" if room >= 4 else ""
        out.append(f'<g><title>{html.escape(name)} {share:.1f} %</title><rect x="{x:.1f}" y="{y}" width="{width:.1f}" '
                   f'height="{ROW - 1}" fill="{colour}"/>')
        out.append(f'<text x="{x + 2:.1f}" y="{y + 11}">{html.escape(text)}</text></g>' if text else "</g>")
        for (inner, its_colour), box in sorted(self.inner.items()):
            if box.count >= SMALLEST * total:
                box.draw(inner, its_colour, x, y - ROW, scale, total, out)
            x += box.count * scale


def svg(role, root, heading):
    height = ROW * (root.depth(SMALLEST * root.count) + 3)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11">',
           f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>', f'<text x="2" y="13">{html.escape(heading)}</text>']
    root.draw(role, "#ccc", 0, height - ROW, WIDTH / root.count, root.count, out)
    return "\n".join(out + ["</svg>\n"])


def main(prefix, directory, *roles):
    names = dict(line.strip().split(" ", 1) for line in open(prefix + ".pids"))
    facts = json.load(open(prefix + ".json"))
    shares, graphs, inclusive = collections.Counter(), collections.defaultdict(Box), collections.defaultdict(collections.Counter)
    for pid, path in samples(sys.stdin):
        role = names.get(str(pid), "others")
        shares[role] += 1
        if role in roles:
            graphs[role].add(path)
            inclusive[role].update({name for name, _ in path})
    total = sum(shares.values())
    for role, count in shares.most_common():
        print(f"{100 * count / total:6.1f} % of all cores: {role}")
    for role in roles:
        share = 100 * shares[role] / total
        heading = (f"{role}'s agent, {share:.0f} % of {facts['processor']}, Linux {facts['kernel']}, {facts['date']}. "
                   "Blue: agent; yellow: C library; orange: kernel")
        with open(f"{directory}/{role}.svg", "w") as file:
            file.write(svg(role, graphs[role], heading))
        print(f"\n{role}, functions with what they call:")
        for name, count in inclusive[role].most_common(60):
            print(f"{100 * count / shares[role]:6.1f} %  {name}")


main(*sys.argv[1:])
