#!/usr/bin/env python3
"""called_once.py [-l] FILE...: how many static functions have one call, and are not used otherwise; -l lists them.

A reader of such a function goes back and forth between it and its one caller: where it has no idea of its own, it
belongs there.
"""
import re
import sys

COMMENT = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', re.S)
DEFINITION = re.compile(r'^static [^;={}()]*?\b(\w+)\([^;{}]*\)\n\{', re.M)


def called_once(path):
    with open(path, encoding="utf-8") as file:
        text = COMMENT.sub(" ", file.read())
    for match in DEFINITION.finditer(text):
        name = match.group(1)
        uses = [use for use in re.finditer(r"\b%s\b" % name, text) if not is_declaration(text, use)]
        if len(uses) == 1 and text[uses[0].end()] == "(":
            yield name


def is_declaration(text, use):
    line = text.rfind("\n", 0, use.start()) + 1
    return text.startswith("static ", line)


def main():
    files = [file for file in sys.argv[1:] if file != "-l"]
    found = [(file, name) for file in files for name in called_once(file)]
    if "-l" in sys.argv:
        for file, name in found:
            print(file + ":", name)
    else:
        print(len(found))


main()
