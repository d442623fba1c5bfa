"""follow.py PAGE: runs the commands that a page shows ("$ …", continued after a backslash) in this folder, and compares
what they print with what the page shows. Numbers may differ by 0.1 or a thousandth, times and curves by anything; a line
"…" stands for all lines before the next one that is shown."""
import re
import subprocess
import sys

VARY = re.compile(r"(seconds=|samples_per_second=)[0-9.]+|[▁-█]+")
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\d+)?")


def same(shown, printed):
    shown, printed = VARY.sub("", shown), VARY.sub("", printed)
    pairs = zip(map(float, NUMBER.findall(shown)), map(float, NUMBER.findall(printed)))
    return NUMBER.sub("0", shown) == NUMBER.sub("0", printed) and all(abs(a - b) <= 0.1 + abs(a) / 1000 for a, b in pairs)


def check(command, shown):
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines, left = done.stdout.splitlines(), list(shown)
    while lines and left:
        if left[0] == "…" and not (left[1:] and same(left[1], lines[0])):
            lines.pop(0)
        elif left[0] == "…":
            left.pop(0)
        elif same(left.pop(0), lines[0]):
            lines.pop(0)
        else:
            break
    if not lines and left in ([], ["…"]):
        return True
    print("$ " + command, "shown:", *shown, "printed:", done.stdout, sep="\n")
    return False


inside, command, shown, runs, wrong = False, "", [], 0, 0
for line in open(sys.argv[1], encoding="utf-8").read().splitlines() + ["```"]:
    if (line.startswith("$ ") or line == "```") and command:
        runs, wrong = runs + 1, wrong + (not check(command, shown))
        command = ""
    if line == "```":
        inside = not inside
    elif inside and line.startswith("$ "):
        command, shown = line[2:], []
    elif inside and command.endswith("\\"):
        command = command[:-1] + line.strip()
    elif inside:
        shown.append(line)
sys.exit(wrong > 0 or runs == 0)
