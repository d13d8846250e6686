#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws one CTA of a trace (ptxemu run --trace, PTXEMU_TRACE) as an SVG picture: units and warps down, nominal clocks
across. The trace itself opens in ui.perfetto.dev and chrome://tracing.

    trace_picture.py TRACE.json OUT.svg [--process 0] [--begin CLOCK] [--end CLOCK] [--title TEXT]
"""
import argparse
import html
import json

COLOURS = {"mma": "#2b7a3d", "tma": "#1f5fa8", "epilogue": "#c77c11", "run": "#8a8f98", "wait": "#f1d9d6"}
WORDS = {"mma": "MMA", "tma": "TMA and copies", "epilogue": "epilogue", "run": "set-up, issue", "wait": "wait"}
WIDTH, LEFT, ROW, BAR, TOP = 1100, 130, 34, 26, 58


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("--process", type=int, default=0, help="which CTA; default the first")
    parser.add_argument("--begin", type=float, default=0)
    parser.add_argument("--end", type=float)
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    with open(options.trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    mine = [event for event in events if event["pid"] == options.process]
    names = {event["tid"]: event["args"]["name"] for event in mine if event["name"] == "thread_name"}
    order = {event["tid"]: event["args"]["sort_index"] for event in mine if event["name"] == "thread_sort_index"}
    slices = [(event["tid"], event["ts"] * 1000, event["dur"] * 1000, event["cat"], event["name"])
              for event in mine if event["ph"] == "X"]
    if not slices:
        raise SystemExit(f"{options.trace}: process {options.process} has no slices")
    end = options.end or max(begin + length for _, begin, length, _, _ in slices)
    scale = (WIDTH - LEFT - 20) / (end - options.begin)
    tracks = sorted(names, key=order.get)
    height = TOP + ROW * len(tracks) + 44
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
           f'font-size="12">', f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="10" y="20" font-size="14">{html.escape(options.title)}</text>']
    x = LEFT
    for kind, colour in COLOURS.items():
        out.append(f'<rect x="{x}" y="30" width="14" height="14" fill="{colour}"/>'
                   f'<text x="{x + 19}" y="42">{WORDS[kind]}</text>')
        x += 60 + 8 * len(WORDS[kind])
    for row, track in enumerate(tracks):
        y = TOP + ROW * row
        out.append(f'<text x="10" y="{y + 18}">{html.escape(names[track])}</text>'
                   f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y + BAR}" y2="{y + BAR}" stroke="#dddddd"/>')
        for tid, begin, length, kind, name in slices:
            left, right = max(begin, options.begin), min(begin + length, end)
            if tid != track or right <= left:
                continue
            x, width = LEFT + (left - options.begin) * scale, max((right - left) * scale, 0.4)
            out.append(f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="{BAR}" fill="{COLOURS[kind]}" '
                       f'stroke="white" stroke-width="0.4"><title>{html.escape(name)}: {begin:.0f} to '
                       f'{begin + length:.0f}</title></rect>')
            label = name.replace("wait: ", "")
            if width > 6.4 * len(label) + 6:
                out.append(f'<text x="{x + width / 2:.2f}" y="{y + 17}" text-anchor="middle" font-size="11" '
                           f'fill="{"#7a4a45" if kind == "wait" else "white"}">{html.escape(label)}</text>')
    steps = (10 ** n * m for n in range(9) for m in (1, 2, 5))
    step = next(step for step in steps if (end - options.begin) / step <= 12)
    y = TOP + ROW * len(tracks) + 4
    clock = -(-options.begin // step) * step
    while clock <= end:
        x = LEFT + (clock - options.begin) * scale
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{y}" stroke="#bbbbbb" stroke-dasharray="2 4"/>'
                   f'<text x="{x:.1f}" y="{y + 14}" text-anchor="middle">{clock:.0f}</text>')
        clock += step
    out.append(f'<text x="{LEFT}" y="{y + 32}" fill="#555555">nominal clocks of a throughput model, not a measurement'
               '</text></svg>')
    with open(options.out, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
