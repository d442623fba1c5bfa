#!/usr/bin/env python3
"""misuse.py: reads stride.h, preprocessed, on stdin and writes the calls of misuse.c on stdout.

Every exported function is called with every value below in each place, once with sound values in the others and once
with nothing (NULL, 0, a zeroed struct), so that a new function is covered without being written down here."""
import re
import sys

# The sound value of a parameter: by "function.parameter", by type, or by the end of the type.
SOUND = {
    "st_tensor": "sound_tensor()", "st_shape": "sound_shape()", "st_axes": "ST_AXES(0)", "st_layer *": "sound_layer()",
    "st_net *": "sound_net()", "st_dataset *": "sound_dataset()", "st_optim *": "sound_optim()", "st_loss": "st_mse()",
    "st_normalization *": "sound_normalization()", "st_schedule *": "&sound_schedule", "st_field *": "sound_fields",
    "st_layer_type *": "&sound_type", "st_shape *": "&(st_shape){ 0 }", "st_layer *[]": "(st_layer *[9]){ sound_layer() }",
    "st_tensor []": "(st_tensor[9]){ sound_tensor(), sound_tensor() }", "FILE *": "sound_stream()",
    "char *[]": '(const char *[9]){ "a", "b" }', "char **": '(const char *[9]){ "a", "b" }', "void *": "sound_memory()",
    "st_real *": "sound_memory()", "double *": "sound_memory()", "double []": "sound_memory()",
    "ptrdiff_t *": "sound_memory()", "uint32_t *": "sound_memory()", "st_metrics *": "&(st_metrics){ 0 }",
    "st_train_result *": "&(st_train_result){ 0 }", "st_layer_needs *": "&(st_layer_needs){ 0 }",
    "st_train_options": "sound_training()", "st_conv2d_options": "(st_conv2d_options){ 2, { 3, 3 } }",
    "st_dense_options": "(st_dense_options){ 2 }", "st_run *": "&(st_run){ .net = sound_net() }",
    "st_random_key": "(st_random_key){ 1, 2 }", "st_row_function *": "sound_row", "st_watch_function *": "sound_watch",
}
# Arrays: a count larger than the array is beyond any check, and so is given without it.
ARRAYS = {"st_layer *[]", "st_tensor []", "char *[]", "char **", "st_real *", "double *", "double []", "ptrdiff_t *",
          "uint32_t *"}
TEXTS = ['"name"', '""', '"/nonexistent/file"', '"."', '"\\xff"', '"/dev/null"']
NUMBERS = {
    "int": ["1", "0", "-1", "9", "INT_MAX", "INT_MIN"], "long": ["1", "0", "-1", "LONG_MAX", "LONG_MIN"],
    "ptrdiff_t": ["1", "0", "-1", "7", "PTRDIFF_MAX", "PTRDIFF_MIN"], "size_t": ["1", "0", "64", "SIZE_MAX"],
    "uint64_t": ["1", "0", "UINT64_MAX"], "_Bool": ["0", "1"], "char": ["0", "-1", "'\\n'"],
    "double": ["0.5", "0", "-1", "1e308", "-1e308", "NAN", "INFINITY", "1e-308"],
    "st_real": ["1", "0", "-1", "ST_REAL_MAX", "NAN", "INFINITY"],
}
LARGE = {"INT_MAX", "LONG_MAX", "PTRDIFF_MAX", "SIZE_MAX", "UINT64_MAX"}
SHAPES = ["(st_shape){ 0 }", "(st_shape){ .rank = 100 }", "(st_shape){ .rank = -1 }", "(st_shape){ .rank = INT_MAX }",
          "(st_shape){ .rank = 1, .n = { -1 } }", "(st_shape){ .rank = 1 }",
          "(st_shape){ .rank = 2, .n = { PTRDIFF_MAX, PTRDIFF_MAX } }", "(st_shape){ .rank = 1, .n = { PTRDIFF_MAX } }",
          "(st_shape){ .rank = 8, .n = { 1, 1, 1, 1, 1, 1, 1, 1 } }", "(st_shape){ .rank = 4, .n = { 1, 1, 8, PTRDIFF_MIN } }"]
AXES = ["(st_axes){ 0 }", "(st_axes){ .count = 100 }", "(st_axes){ .count = -1 }", "(st_axes){ .count = INT_MAX }",
        "(st_axes){ .count = 2 }", "(st_axes){ .count = 1, .axis = { INT_MAX } }", "(st_axes){ .count = 1, .axis = { INT_MIN } }"]
TENSORS = ["(st_tensor){ 0 }", "empty_tensor()", "scalar_tensor()", "strided_tensor()", "nan_tensor()", "image_tensor()"]
# Sound, but without end.
NEVER = {"st_train_options.epochs": LARGE, "st_train_options.steps_per_epoch": LARGE,
         "st_gradcheck_options.directions": LARGE}


def declarations(text):
    """The outermost declarations, without the bodies of functions."""
    lines, ours = [], False
    for line in text.split("\n"):
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            name = marker.group(1)
            ours = name.endswith("stride.h") or re.search(r"(^|/)(tensor|layers|nn)/[a-z0-9_/]+\.h$", name) is not None
        elif ours and not line.startswith("#"):
            lines.append(line)
    text = re.sub(r"__attribute__ *\(\(([^()]|\([^()]*\))*\)\)", "", " ".join(lines))
    text = re.sub(r"\s+", " ", text)
    depth, current = 0, ""
    for c in text:
        current += c
        depth += (c == "{") - (c == "}")
        if c == "}" and depth == 0 and re.search(r"\) *\{", current):
            current = ""
        if c == ";" and depth == 0:
            yield current.strip()
            current = ""


def split(text, separator):
    depth, part, parts = 0, "", []
    for c in text:
        depth += (c in "({[") - (c in ")}]")
        if c == separator and depth == 0:
            parts.append(part.strip())
            part = ""
        else:
            part += c
    return [p for p in parts + [part.strip()] if p]


def parameter(text):
    """Its name and its type, without const."""
    function = re.match(r"(.*)\(\*(\w+)\)(\(.*\))$", text)
    if function:
        return function.group(2), "function " + function.group(2)
    text = re.sub(r"\bconst\b ?", "", text)
    name = re.search(r"(\w+) *(\[.*\])?$", text)
    if not name:
        return "", text
    kind = re.sub(r" +", " ", text[: name.start()]).strip()
    return name.group(1), (kind + (" " if not kind.endswith("*") else "") + "[]") if name.group(2) else kind


structs, functions, enums, callbacks, types = {}, [], set(), set(), set()
for d in declarations(sys.stdin.read().replace("st_double_", "st_")):
    body = re.match(r"(?:typedef )?(struct|enum) (\w*) ?\{(.*)\} ?(\w*);$", d)
    if body and body.group(1) == "enum":
        enums.add(body.group(4))
    elif body:
        structs[body.group(2)] = body.group(3)
    elif re.match(r"typedef .*\bst_\w+\(", d):
        callbacks.add(re.search(r"(\w+)\(", d).group(1))
    elif "(" in d and not d.startswith(("typedef", "static", "extern", "enum", "struct")):
        head, rest = d.split("(", 1)
        functions.append((re.search(r"(\w+)$", head.strip()).group(1), split(rest[: rest.rindex(")")], ",")))


def members(name):
    """The numbers that a struct holds: "member" or "member[0]", and their type."""
    for field in split(structs.get(name, ""), ";"):
        field = re.sub(r" \[", "[", re.sub(r"\bconst\b ?", "", field))
        kind, *names = re.split(r"[ ,]+", field)
        if "(" in field or "*" in field or "{" in field or not names:
            continue
        for n in names:
            array = n.split("[")[0]
            for member in [array + "[0]", array + "[1]"] if "[" in n else [n]:
                yield member, kind


def numbers(kind):
    if kind in enums:
        return ["0", "-1", "1000"]
    return NUMBERS.get(kind, [])


def values(function, name, kind):
    """Of one parameter, the sound value first, then the one that is nothing."""
    if kind.startswith("function"):
        return ["sound_" + function[3:], "NULL"]
    if kind in callbacks or kind.rstrip(" *") in callbacks:
        return [SOUND.get(kind, "NULL"), "NULL"]
    if kind == "char *" and name == "to":
        return ["sound_memory()", "NULL"]
    if kind == "char *" and name == "format":
        return ['"text"', "NULL", '""', '"%%"']
    if kind == "char *" and name == "json":
        return ['"{\\"type\\": \\"relu\\"}"', "NULL", '"{}"', '"["', '""']
    if kind == "char *":
        return [TEXTS[0], "NULL"] + TEXTS[1:]
    if kind in NUMBERS or kind in enums:
        cast = "(%s)" % kind
        known = numbers(kind)
        return [cast + known[0], cast + "0"] + [cast + n for n in known[1:] if n != "0"]
    if kind == "st_shape":
        return [SOUND[kind]] + SHAPES
    if kind == "st_axes":
        return [SOUND[kind]] + AXES
    if kind == "st_tensor":
        return [SOUND[kind]] + TENSORS
    if kind in structs:
        zero = "(%s){ 0 }" % kind
        sound = SOUND.get(kind, zero)
        found = [sound, zero]
        for member, of in members(kind):
            if of == "st_shape":
                options = SHAPES
            else:
                options = [n for n in numbers(of) if n not in NEVER.get("%s.%s" % (kind, member), ())]
            found += ["changed(%s, (%s), %s, (%s))" % (kind, sound, member, n) for n in options]
        return found
    if kind.endswith(("*", "[]")):
        of = kind[:-1].strip() if kind.endswith("*") else ""
        found = [SOUND[kind]] if kind in SOUND else []
        found.append("NULL")
        if of in structs:
            found.append("zeroed(sizeof(%s))" % of)
        return found
    raise SystemExit("%s: no values for a parameter of type %s" % (function, kind))


count = 0
print("/* Made by misuse.py. */")
for name, text in functions:
    known = [parameter(p) for p in text if p not in ("void", "...")]
    choices = [values(name, *p) for p in known]
    arrays = [i for i, p in enumerate(known) if p[1] in ARRAYS or p[0] == "to"]
    calls = {}
    for others in (0, 1):
        base = [c[min(others, len(c) - 1)] for c in choices]
        calls[tuple(base)] = None
        for i, choice in enumerate(choices):
            for value in choice:
                call = base[:i] + [value] + base[i + 1 :]
                if known[i][1] in NUMBERS and value.split(")")[-1] in LARGE:
                    for array in arrays:
                        call[array] = "NULL"
                calls[tuple(call)] = None
    print("static void call_%d(int which)\n{\n    switch (which) {" % count)
    for i, call in enumerate(calls):
        print("    case %d: (void)%s(%s); break;" % (i, name, ", ".join(call)))
    print("    }\n}\nstatic const char *const text_%d[] = {" % count)
    for call in calls:
        print('    "%s(%s)",' % (name, ", ".join(call).replace("\\", "\\\\").replace('"', '\\"')))
    print("    NULL };")
    count += 1
print("static const struct { void (*call)(int which); const char *const *text; } functions[] = {")
for i in range(count):
    print("    { call_%d, text_%d }," % (i, i))
print("};")
