#!/usr/bin/env python3
"""mutate.py COUNT SEED LEAST FOLDER...: mutation testing of the C files in the folders.

Draws COUNT mutations: a comparison is another, a number is one more or less, + is - and * is /, && is ||, a condition
is negated, two operands or arguments change places, a statement is dropped. Each is compiled alone and linked into the
tests of its room before the library, where the linker takes the first of two definitions. One that does not compile,
or compiles to the same code, is drawn again, and so is one of mutate.txt, which does the same. Prints every mutation
that no test finds, and the score; fails where that is below LEAST percent. BUILD/mutations/results has a line of each,
which says what finds it.

From make: OUT, where the library is built; LINK_float, LINK_double, ... with @ for the mutated object and what the
program is called: the commands that link a room's tests.
"""
import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

OUT = os.environ["OUT"]
WORK = os.path.join(os.environ["BUILD"], "mutations")
# A folder's tests, in the order in which they are run until one fails: precision, room, argument.
STAGES = {
    "tensor": [("float", "tensor", ""), ("float", "layers", "test_cases"), ("float", "nn", "")],
    "nn": [("float", "nn", ""), ("float", "data", ""), ("float", "ranks", ""), ("float", "callbacks", ""),
           ("float", "files", ""), ("double", "nn", "")],
    "layers": [("float", "layers", "test_cases"), ("float", "layers", ""), ("double", "layers", ""),
               ("float", "nn", "")],
}
SWAPS = {
    "<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="], "==": ["!="], "!=": ["=="],
    "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "+=": ["-=", "="],
    "-=": ["+="], "*=": ["/="], "++": ["--"], "--": ["++"], "!": [""], "true": ["false"], "false": ["true"],
}
TOKEN = re.compile(r"""[A-Za-z_]\w*|\d+\.\d*\w*|0[xX]\w+|\d+\w*|->|\+\+|--|<<=|>>=|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|\S""")
SIMPLE = r"[A-Za-z_][\w.]*(?:->\w+|\[\w+\])*"
OPERANDS = re.compile(r"(?<![\w.\])>] )(?<![\w.\])>])(%s) ([-/<>%%]|<=|>=) (%s)(?![\w.(\[]|->)" % (SIMPLE, SIMPLE))
ARGUMENTS = re.compile(r"(?<=[(,]) ?(%s), (%s)(?=[,)])" % (SIMPLE, SIMPLE))
SYMMETRIC = re.compile(r"\b(largest|smallest|fmin|fmax|st_shape_equal|st_overlaps|st_shares_storage|same_view)\($")
FAILURE = re.compile(r"\breturn (?:[^;]*[?:] )?-$")
STATEMENT = re.compile(r"^( +)((?!return|break|continue|goto|typedef|static|const|else|case|default|extern)"
                       r"[A-Za-z_*(][^;{}=]*(?:\+\+|--|\)|(?:[-+*/]?=)[^;{}=]+));$", re.M)


def blank(text):
    """Comments, strings, directives and declarations of macros as spaces: the same places, nothing to mutate."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#(?:\\\n|[^\n])*'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S | re.M)


def bodies(text):
    """Where functions' bodies lie: from a brace at the start of a line to the next."""
    return [(m.start(), m.end()) for m in re.finditer(r"^\{\n.*?^\}", text, re.S | re.M)]


def equal_programs():
    """The mutations of mutate.txt: (path, line, old, new)."""
    with open(os.path.join(os.path.dirname(__file__), "mutate.txt"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split(" | ") for line in f if line.strip() and not line.startswith("#")]
    return {tuple(row[:4]) for row in rows}


EQUAL = equal_programs()
UNSEEN = set(EQUAL)


def line_at(text, at):
    """The line of a place, without its indentation."""
    return text[text.rfind("\n", 0, at) + 1:text.find("\n", at)].strip()


def sites(path):
    """Every mutation of a file: (path, place, old, new)."""
    original = open(path, encoding="utf-8").read()
    text = blank(original)
    found = []
    for begin, end in bodies(text):
        body = text[begin:end]
        private = text[:begin].rpartition("\n\n")[2].lstrip().startswith("static")
        for m in TOKEN.finditer(body):
            old, at = m.group(), begin + m.start()
            spaced = body[m.start() - 1] == " " and body[m.end():m.end() + 1] == " "
            if old in "+-*/%<>" and not spaced:  # a sign, a pointer
                continue
            if re.fullmatch(r"\d+", old):
                news = [str(int(old) + 1)] + ([str(int(old) - 1)] if int(old) > 0 else [])
                if private and old == "1" and FAILURE.search(body[:m.start()]):
                    news.remove("2")  # who calls a static function asks if it failed
            else:
                news = SWAPS.get(old, [])
            found += [(path, at, old, new) for new in news]
        for m in OPERANDS.finditer(body):
            found.append((path, begin + m.start(), m.group(), f"{m.group(3)} {m.group(2)} {m.group(1)}"))
        for m in ARGUMENTS.finditer(body):
            if SYMMETRIC.search(body[:m.start()]):
                continue
            found.append((path, begin + m.start(1), f"{m.group(1)}, {m.group(2)}", f"{m.group(2)}, {m.group(1)}"))
        for m in STATEMENT.finditer(body):
            if re.match(r"[\w ]+\s[*\w]+( =|$)", m.group(2)) and not re.match(r"[\w.\->\[\]]+ [-+*/]?=", m.group(2)):
                continue  # a declaration
            found.append((path, begin + m.start(2), m.group(2) + ";", ";"))
    rows = [(path, line_at(original, at), old, new) for _, at, old, new in found]
    UNSEEN.difference_update(rows)
    return [site for site, row in zip(found, rows) if row not in EQUAL]


def compile_command(path, precision):
    """What make would compile the file with, but for the file and the object."""
    target = f"{OUT}/{precision}/{path[:-2]}.o"
    said = subprocess.run(["make", "-n", "V=1", "-W", path, target], capture_output=True, text=True, check=False)
    line = [l for l in said.stdout.splitlines() if f" -c {path} " in l][-1]
    return line.replace(f" -MMD -MP -c {path} -o {target}", "")


COMMANDS = {}


def compiled(source, path, precision, target):
    key = (path, precision)
    if key not in COMMANDS:
        COMMANDS[key] = compile_command(path, precision)
    line = f"{COMMANDS[key]} -w -g0 -c {source} -o {target}"
    return subprocess.run(line, shell=True, capture_output=True, check=False).returncode == 0


def code(path):
    dump = subprocess.run(["objdump", "-d", "-r", "-s", "-j", ".text", "-j", ".rodata", "-j", ".data.rel.ro", path],
                          capture_output=True, check=False)
    return dump.stdout.replace(path.encode(), b"")


def passes(obj, precision, room, argument, folder, fast="1"):
    program = f"{folder}/{precision}-{room}"
    if not os.path.exists(program):
        link = os.environ[f"LINK_{precision}_{room}"].replace("@OBJECT@", obj).replace("@PROGRAM@", program)
        if subprocess.run(link, shell=True, capture_output=True, check=False).returncode != 0:
            return False
    env = dict(os.environ, STRIDE_FAST=fast, STRIDE_TEST_TMP=folder, STRIDE_THREADS="2")
    # Loops without an end use up processor time, however busy the machine is; threads that wait use none. The first
    # test that fails is enough.
    command = [program] + ([argument] if argument else [])
    limited = ["timeout", "900", "sh", "-c", 'ulimit -t 60; exec "$@"', "sh"] + command
    with subprocess.Popen(limited, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        failed = any(line.startswith(b"[  FAILED  ]") for line in run.stdout)
        if failed:
            run.terminate()
    return not failed and run.returncode == 0


def tried(number, site):
    """None where the mutation is none, else the test that finds it, or "" where none does."""
    path, at, old, new = site
    folder = os.path.join(WORK, str(number))
    subprocess.run(["rm", "-rf", folder], check=True)
    os.makedirs(folder)
    text = open(path, encoding="utf-8").read()
    assert text[at:at + len(old)] == old or blank(text)[at:at + len(old)] == old
    mutant = f"{folder}/mutant.c"
    for name, content in ((mutant, text[:at] + new + text[at + len(old):]), (f"{folder}/whole.c", text)):
        with open(name, "w", encoding="utf-8") as f:
            f.write(content)
    found = ""
    objects = {}
    for precision, room, argument in STAGES[path.split("/")[0]]:
        if precision not in objects:
            objects[precision] = obj = f"{folder}/{precision}.o"
            if not compiled(mutant, path, precision, obj):
                return None
            if precision == "float":
                compiled(f"{folder}/whole.c", path, precision, f"{folder}/whole.o")
                if code(obj) == code(f"{folder}/whole.o"):
                    return None
        if not passes(objects[precision], precision, room, argument, folder):
            found = f"{precision} {room} {argument}"
            break
    else:  # once more, with all cases of the first tests, and the large networks
        for precision, room, argument in (STAGES[path.split("/")[0]][0], ("float", "nn", "test_record")):
            if not found and not passes(objects[precision], precision, room, argument, folder, fast=""):
                found = f"{precision} {room} {argument} (all cases)"
    subprocess.run(["rm", "-rf", folder], check=True)
    return found


def assert_whole(path):
    """What is not mutated passes, or else all would be found."""
    folder = os.path.join(WORK, "whole")
    subprocess.run(["rm", "-rf", folder], check=True)
    os.makedirs(folder)
    for precision, room, argument in STAGES[path.split("/")[0]]:
        obj = f"{folder}/{precision}.o"
        if not compiled(path, path, precision, obj) or not passes(obj, precision, room, argument, folder):
            sys.exit(f"mutate.py: {path}, as it is, fails the tests of {precision} {room} {argument}")


def main():
    count, seed, least = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    files = sorted(f"{folder}/{f}" for folder in sys.argv[4:] for f in os.listdir(folder) if f.endswith(".c"))
    everything = [s for f in files for s in sites(f)]
    for row in UNSEEN:
        if row[0] in files:
            sys.exit(f"mutate.py: mutate.txt: {row[0]} has no line \"{row[1]}\" with {row[2]} to become {row[3]}")
    random.Random(seed).shuffle(everything)
    for path in {f.split("/")[0]: f for f in files}.values():
        assert_whole(path)
    results = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        left = iter(enumerate(everything))
        running = []
        while len(results) + len(running) < count or running:
            while len(running) < os.cpu_count() and len(results) + len(running) < count:
                number, site = next(left)
                running.append((site, pool.submit(tried, number, site)))
            site, future = running.pop(0)
            found = future.result()
            if found is None:
                continue
            results.append((site, found))
            path, at, old, new = site
            line = open(path, encoding="utf-8").read().count("\n", 0, at) + 1
            what = f"{found or 'no test'} finds: {' '.join(old.split())}  ->  {new or 'nothing'}"
            with open(f"{WORK}/results", "a" if len(results) > 1 else "w", encoding="utf-8") as f:
                f.write(f"{path}:{line}: {what}\n")
            if found == "":
                print(f"{path}:{line}: {what}", flush=True)
    killed = sum(found != "" for _, found in results)
    print(f"mutations: {killed} of {len(results)} found, {100 * killed / len(results):.1f} %, of {len(everything)} "
          f"possible; seed {seed}")
    return 100 * killed < least * len(results)


sys.exit(main())
