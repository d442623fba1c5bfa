#!/usr/bin/env python3
"""coverage.py JSON REASONS LINES BRANCHES: what the tests covered, by gcovr's report in JSON.

Prints a table of files, each region of lines that no test reached with its reason, and a line of the two figures.
Fails below LINES or BRANCHES percent, and for a region that has no reason among REASONS (tests/coverage.txt says how
they are written)."""
import json
import sys


def regions_of(file):
    """Runs of lines that were never executed: (function, first line, last line), not parted by what is no code."""
    with open(file["file"]) as source:
        text = source.read().split("\n")
    code = [line for line in file["lines"] if not line["gcovr/noncode"]]
    functions = sorted((f["lineno"], f["name"]) for f in file["functions"])
    found, before = [], False
    for line in sorted(code, key=lambda line: line["line_number"]):
        number = line["line_number"]
        inside = [f for f in functions if f[0] <= number]
        # A macro stamps many functions at one line.
        function = inside[-1] if inside else (0, "")
        if line["count"] == 0:
            if before and found[-1][0] == function[1]:
                found[-1][2] = number
            else:
                found.append([function[1], number, number])
        before = line["count"] == 0
    return [(function, first, last, text[first - 1].strip()) for function, first, last in found]


def reasons_in(path):
    """{(file, function, text of the first line): reason}."""
    table, reason = {}, None
    with open(path) as lines:
        for line in lines:
            if line.startswith("#") or not line.strip():
                continue
            if not line.startswith(" "):
                reason = line.strip()
            else:
                file, function, text = line.strip().split(None, 2)
                table[file, function, text] = reason
    return table


def percent(part, whole):
    # Downwards: what is not all is not 100.
    return 100.0 if not whole else int(1000 * part / whole) / 10


def main():
    report, reasons = json.load(open(sys.argv[1])), reasons_in(sys.argv[2])
    totals, unnamed, used = [0, 0, 0, 0], [], set()
    print("%-36s %15s %15s" % ("file", "lines", "branches"))
    listed = []
    for file in sorted(report["files"], key=lambda file: file["file"]):
        code = [line for line in file["lines"] if not line["gcovr/noncode"]]
        branches = [branch for line in code for branch in line["branches"]]
        counts = (sum(line["count"] > 0 for line in code), len(code),
                  sum(branch["count"] > 0 for branch in branches), len(branches))
        totals = [a + b for a, b in zip(totals, counts)]
        print("%-36s %5d/%-5d %5.1f %5d/%-5d %5.1f" % (
            file["file"], *counts[:2], percent(*counts[:2]), *counts[2:], percent(*counts[2:])))
        for function, first, last, text in regions_of(file):
            key = (file["file"], function, text)
            used.add(key)
            place = "%s:%d" % (file["file"], first) + ("-%d" % last if last > first else "")
            if key in reasons:
                listed.append((reasons[key], place, "%s: %s" % (function, text)))
            else:
                unnamed.append("%s %s %s" % key)
    print("\nnot reached")
    for reason in sorted({reason for reason, _, _ in listed}):
        print(reason)
        for _, place, text in [line for line in listed if line[0] == reason]:
            print("  %-34s %s" % (place, text))
    # Another machine reaches other lines, so that a reason without a region is no failure.
    for key in reasons:
        if key not in used:
            print("reached, and yet in %s: %s %s %s" % (sys.argv[2], *key))
    for text in unnamed:
        print("no reason in %s: %s" % (sys.argv[2], text))
    lines, branches = percent(*totals[:2]), percent(*totals[2:])
    bad = lines < float(sys.argv[3]) or branches < float(sys.argv[4]) or unnamed
    print("%s coverage: lines %.1f %% (%d of %d; at least %s), branches %.1f %% (%d of %d; at least %s)%s" % (
        "FAIL" if bad else "ok  ", lines, *totals[:2], sys.argv[3], branches, *totals[2:], sys.argv[4],
        ", %d places without a reason" % len(unnamed) if unnamed else ""))
    return bool(bad)


sys.exit(main())
