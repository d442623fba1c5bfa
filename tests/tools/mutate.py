#!/usr/bin/env python3
"""mutate.py COUNT SEED LEAST FOLDER...: mutation testing of the C files in the folders.

Draws COUNT mutations: a comparison is another, a number is one more or less, + is - and * is /, && is ||, a condition
is negated, two operands or arguments change places, a statement is dropped. Each is compiled alone and linked into the
tests before the library, where the linker takes the first of two definitions. The files of tests that reach the mutated
function are run, those first that find most in the least time, until one fails. A mutation that does not compile, or
compiles to the same code, is drawn again, and so is one of mutate.txt, which does the same. Prints every mutation that
no test finds, and the score; fails where that is below LEAST percent. BUILD/mutations/results has a line of each, which
says what finds it. A COUNT of 0 checks the rows of mutate.txt only.

From make: OUT, where the library is built; LINK_float_tensor, LINK_double_nn, ... with @OBJECT@ for the mutated object
and @PROGRAM@ for what the program is called: the commands that link a room's tests. JOBS is how many mutations are
tried at a time, as many as there are processors by default.
"""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

OUT = os.environ.get("OUT", "build")
WORK = os.path.join(os.environ.get("BUILD", "build"), "mutations")
JOBS = int(os.environ.get("JOBS") or os.cpu_count() or 1)
# The rooms whose tests are run.
ROOMS = ("tensor", "layers", "nn", "data", "ranks", "callbacks", "files")
SWAPS = {
    "<": ["<=", ">"], "<=": ["<", ">="], ">": [">=", "<"], ">=": [">", "<="], "==": ["!="], "!=": ["=="],
    "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"], "+=": ["-=", "="],
    "-=": ["+="], "*=": ["/="], "++": ["--"], "--": ["++"], "!": [""], "true": ["false"], "false": ["true"],
}
TOKEN = re.compile(r"""[A-Za-z_]\w*|\d+\.\d*\w*|0[xX]\w+|\d+\w*|->|\+\+|--|<<=|>>=|[-+*/%&|^=!<>]=|&&|\|\||<<|>>|\S""")
SIMPLE = r"[A-Za-z_][\w.]*(?:->\w+|\[\w+\])*"
OPERANDS = re.compile(r"(?<![\w.\])>] )(?<![\w.\])>])(%s) ([-/<>%%]|<=|>=) (%s)(?![\w.(\[]|->)" % (SIMPLE, SIMPLE))
ARGUMENTS = re.compile(r"(?<=[(,]) ?(%s), (%s)(?=[,)])" % (SIMPLE, SIMPLE))
SYMMETRIC = re.compile(
    r"\b(largest|smallest|fmin|fmax|strcmp|st_shape_equal|st_overlaps|st_shares_storage|same_view)\($")
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


def compiled(source, path, precision, target, more=""):
    key = (path, precision)
    if key not in COMMANDS:
        COMMANDS[key] = compile_command(path, precision)
    line = f"{COMMANDS[key]} -O1 -w -g0 {more} -c {source} -o {target}"  # optimising takes longer than tests
    return subprocess.run(line, shell=True, capture_output=True, check=False).returncode == 0


def code(path):
    dump = subprocess.run(["objdump", "-d", "-r", "-s", "-j", ".text", "-j", ".rodata", "-j", ".data.rel.ro", path],
                          capture_output=True, check=False)
    return dump.stdout.replace(path.encode(), b"")


class Test:
    """A file of tests: what it takes, and the functions that it reaches, all of them where that is None."""

    def __init__(self, precision, room, name):
        self.precision, self.room, self.name = precision, room, name
        self.seconds = 0.0
        self.reached = None
        self.tries, self.finds = {}, {}
        with open(f"tests/{room}/{name}.c", encoding="utf-8") as f:
            self.shorter = "STRIDE_FAST" in f.read()

    def reaches(self, path, function):
        return not self.reached or not function or (path, function) in self.reached

    def price(self, folder):
        """The seconds that a mutation of the folder costs this test until it finds one."""
        return (self.seconds + 0.1) * (self.tries.get(folder, 0) + 2) / (self.finds.get(folder, 0) + 1)


def tests_of(precision, room):
    names = re.findall(rf"tests/{room}/(test_\w+)\.o", os.environ.get(f"LINK_{precision}_{room}", ""))
    return [Test(precision, room, name) for name in names]


TESTS = [t for precision in ("float", "double") for room in ROOMS for t in tests_of(precision, room)]
WHOLE = {}
WHOLE_LOCK = threading.Lock()


def whole_code(path):
    """The code of a file that is not mutated, under the name of one that is."""
    with WHOLE_LOCK:
        if path not in WHOLE:
            folder = os.path.join(WORK, "whole", path[:-2].replace("/", "."))
            os.makedirs(folder)
            shutil.copy(path, f"{folder}/mutant.c")
            compiled(f"{folder}/mutant.c", path, "float", f"{folder}/float.o")
            WHOLE[path] = code(f"{folder}/float.o")
        return WHOLE[path]


def linked(obj, test, folder, more=""):
    """The program of a test's room with an object, or None where the linker fails."""
    program = f"{folder}/{test.precision}-{test.room}"
    if not os.path.exists(program):
        link = os.environ[f"LINK_{test.precision}_{test.room}"]
        link = link.replace("@OBJECT@", f"{obj} {more}").replace("@PROGRAM@", program)
        if subprocess.run(link, shell=True, capture_output=True, check=False).returncode != 0:
            return None
    return program


def passes(obj, test, folder, fast="1"):
    program = linked(obj, test, folder)
    if not program:
        return False
    env = dict(os.environ, STRIDE_FAST=fast, STRIDE_TEST_TMP=folder, STRIDE_THREADS="2")
    # Loops without an end use up processor time, however busy the machine is; threads that wait use none. The first
    # test that fails is enough.
    most = int(4 * test.seconds + 2 if fast else 60)
    limited = ["timeout", str(20 * most), "sh", "-c", f'ulimit -t {most}; exec "$@"', "sh", program, test.name]
    with subprocess.Popen(limited, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        failed = any(line.startswith(b"[  FAILED  ]") for line in run.stdout)
        if failed:
            run.terminate()
    return not failed and run.returncode == 0


def tried(number, site):
    """None where the mutation is none, else the test that finds it, or "" where none does."""
    path, at, old, new = site
    room = path.split("/")[0]
    folder = os.path.join(WORK, str(number))
    subprocess.run(["rm", "-rf", folder], check=True)
    os.makedirs(folder)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    assert text[at:at + len(old)] == old or blank(text)[at:at + len(old)] == old
    mutant = f"{folder}/mutant.c"
    with open(mutant, "w", encoding="utf-8") as f:
        f.write(text[:at] + new + text[at + len(old):])
    objects = {"float": f"{folder}/float.o"}
    if not compiled(mutant, path, "float", objects["float"]):
        return None
    if code(objects["float"]) == whole_code(path):
        return None
    function = function_at(path, text.count("\n", 0, at) + 1)
    tests = sorted((t for t in TESTS if t.reaches(path, function)), key=lambda t: t.price(room))
    found = ""
    for test, fast in [(t, "1") for t in tests] + [(t, "") for t in tests if t.shorter]:
        if test.precision not in objects:
            objects[test.precision] = f"{folder}/{test.precision}.o"
            compiled(mutant, path, test.precision, objects[test.precision])
        test.tries[room] = test.tries.get(room, 0) + 1
        if not passes(objects[test.precision], test, folder, fast):
            test.finds[room] = test.finds.get(room, 0) + 1
            found = f"{test.precision} {test.room} {test.name}{'' if fast else ' (all cases)'}"
            break
    subprocess.run(["rm", "-rf", folder], check=True)
    return found


FUNCTIONS = {}


def function_at(path, line):
    """The name of the function that a line of a file lies in."""
    return next((name for name, first, last in FUNCTIONS.get(path, []) if first <= line <= last), None)


def time_tests(path):
    """What each file of tests takes; what is not mutated passes, or else all would be found."""
    folder = os.path.join(WORK, "whole")
    os.makedirs(folder)
    for precision in ("float", "double"):
        compiled(path, path, precision, f"{folder}/{precision}.o")
    for test in TESTS:
        before = os.times()
        test.seconds = 12.0
        if not passes(f"{folder}/{test.precision}.o", test, folder):
            sys.exit(f"mutate.py: {path}, as it is, fails {test.precision} {test.room} {test.name}")
        after = os.times()
        test.seconds = after.children_user + after.children_system - before.children_user - before.children_system


def find_reached(files):
    """What each file of tests reaches, told by gcov. One that fails when it is counted is taken to reach everything,
    and so are those of ranks, whose processes end without telling, and the longest, which counting makes longer."""
    folder = os.path.abspath(os.path.join(WORK, "reached"))
    os.makedirs(folder)
    objects = [f"{folder}/{path[:-2].replace('/', '.')}.o" for path in files]
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(lambda path, obj: compiled(path, path, "float", obj, "--coverage"), files, objects))
    for test in TESTS:
        if test.precision != "float" or test.seconds > 2 or test.room == "ranks":
            continue
        program = linked(" ".join(objects), test, folder, "--coverage")
        env = dict(os.environ, STRIDE_FAST="1", STRIDE_TEST_TMP=folder, STRIDE_THREADS="2")
        done = subprocess.run([program, test.name], env=env, capture_output=True, check=False)
        counts = [f"{folder}/{f}" for f in os.listdir(folder) if f.endswith(".gcda")]
        said = subprocess.run(["gcov", "--json-format", "--stdout"] + counts, capture_output=True, check=False)
        reached = set()
        for line in said.stdout.splitlines():
            for file in json.loads(line)["files"]:
                functions = file["functions"]
                FUNCTIONS[file["file"]] = [(f["name"], f["start_line"], f["end_line"]) for f in functions]
                reached.update((file["file"], f["name"]) for f in functions if f["execution_count"] > 0)
        for f in counts:
            os.remove(f)
        if done.returncode == 0:
            test.reached = reached
    for test in TESTS:
        if test.precision == "double":
            test.reached = next((t.reached for t in TESTS if t.precision == "float" and t.name == test.name), None)


def main():
    count, seed, least = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    files = sorted(f"{folder}/{f}" for folder in sys.argv[4:] for f in os.listdir(folder) if f.endswith(".c"))
    everything = [s for f in files for s in sites(f)]
    for row in UNSEEN:
        if row[0] in files:
            sys.exit(f"mutate.py: mutate.txt: {row[0]} has no line \"{row[1]}\" with {row[2]} to become {row[3]}")
    if count == 0:
        return False
    random.Random(seed).shuffle(everything)
    subprocess.run(["rm", "-rf", WORK], check=True)
    time_tests(files[0])
    find_reached(files)
    results = []
    with ThreadPoolExecutor(JOBS) as pool:
        left = iter(enumerate(everything))
        running = []
        while len(results) + len(running) < count or running:
            while len(running) < JOBS and len(results) + len(running) < count:
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
