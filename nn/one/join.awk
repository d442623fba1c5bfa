# join.awk: joins the library's sources to one header and one source file.
#
#     awk -f join.awk -v header=TO.h -v source=TO.c -v license=FILE -v version=TEXT -v programs=PAGE LIST
#
# LIST has a line for each file, in the order in which they are joined; lines that begin with # are comments:
#
#     begin TO FILE           the first text of TO: header, source or a file beside it
#     beside PART FILE.c      files of this part go to FILE.c beside the source, which includes it at its end
#     public FILE.h           goes to the header
#     file FILE.c [PART...]   goes to the source; the macro PART leaves it out, !PART if it is not defined
#     fused FILE.c [PART...]  the same; there a product and a sum become one instruction where there is one
#     instead NAME [FILE.h]   #include of NAME includes FILE.h, or nothing
#     pasted FILE.c NAME...   names that macros of this file paste together, and that another file has, too
#
# A private header is inserted where it is first included. A static name or a type that several files have
# stays in the one that says it most often; elsewhere a number follows. Macros of a source end with it, if
# another file has a word like it. What no public header declares becomes static, but for arrays whose size a header
# leaves open: ONE_NAME(x) names them. A weak definition is for builds that leave out the part
# with the strong one. Names that two headers declare, headers that are not found and weak definitions without a
# strong one are errors.
#
# The sources are as clang-format leaves them: nothing else is expected to be understood.

function fail(text) {
    print "join.awk: " text >"/dev/stderr"
    failed = 1
    exit 1
}

# Goes on, to find all there is to complain about.
function complain(text) {
    print "join.awk: " text >"/dev/stderr"
    failed = 1
}

# ---- tokens ------------------------------------------------------------------------------------------------
#
# token[path, i] and kind[path, i], 1 <= i <= tokens[path]. Kinds: s space, c comment, d a directive's # and word, n name,
# x number, q quoted, p punctuation. within[path, i]: in a line of the preprocessor. depth[path, i]: of #if.

function quoted(text,    mark, n) {
    mark = substr(text, 1, 1)
    for (n = 2; n <= length(text); n++) {
        if (substr(text, n, 1) == "\\") n++
        else if (substr(text, n, 1) == mark) return n
    }
    fail("a quote that does not end: " text)
}

# The kind of the token that begins a line; LENGTH is its length.
function first_kind(line, begins) {
    if (match(line, /^[ \t]+/)) { LENGTH = RLENGTH; return "s" }
    if (line ~ /^\/\*/) {
        LENGTH = index(substr(line, 3), "*/")
        LENGTH = LENGTH ? LENGTH + 3 : length(line)
        return "c"
    }
    if (line ~ /^\/\//) { LENGTH = length(line); return "c" }
    if (begins && match(line, /^#[ \t]*[a-z]*/)) { LENGTH = RLENGTH; return "d" }
    if (match(line, /^[A-Za-z_][A-Za-z_0-9]*/)) { LENGTH = RLENGTH; return "n" }
    if (match(line, /^\.?[0-9]([eEpP][-+]|[A-Za-z_0-9.])*/)) { LENGTH = RLENGTH; return "x" }
    if (line ~ /^["']/) { LENGTH = quoted(line); return "q" }
    LENGTH = match(line, /^(\.\.\.|->|##|\+\+|--|<<|>>|[<>=!]=)/) ? RLENGTH : 1
    return "p"
}

function push(path, k, text, directive) {
    kind[path, tokens[path]] = k
    token[path, tokens[path]] = text
    if (k == "n" && !uses[path, text]++) users[text]++
    within[path, tokens[path]] = directive
    depth[path, tokens[path]] = nested
}

function scan(path,    line, read, comment, directive, begins, k, end, text) {
    nested = comment = directive = 0
    tokens[path] = 0
    while ((read = (getline line <path)) > 0) {
        for (begins = 1; line != ""; line = substr(line, LENGTH + 1)) {
            if (comment) {
                end = index(line, "*/")
                LENGTH = end ? end + 1 : length(line)
                token[path, tokens[path]] = token[path, tokens[path]] substr(line, 1, LENGTH)
                comment = !end
                continue
            }
            k = first_kind(line, begins)
            text = substr(line, 1, LENGTH)
            if (k == "d") directive = 1
            if (text ~ /^#[ \t]*endif/) nested--
            tokens[path]++
            push(path, k, text, directive)
            if (text ~ /^#[ \t]*if/) nested++
            comment = k == "c" && text ~ /^\/\*/ && text !~ /\*\/$/
            if (k != "s") begins = 0
        }
        if (comment) token[path, tokens[path]] = token[path, tokens[path]] "\n"
        else {
            if (directive && token[path, tokens[path]] != "\\") directive = 0
            tokens[path]++
            push(path, "s", "\n", directive)
        }
    }
    close(path)
    if (read < 0) fail(path ": cannot be read")
}

# The next token after i that is code; 0: there is none. code(): the same outside of directives.
function next_text(path, i) {
    for (i++; i <= tokens[path]; i++) if (kind[path, i] ~ /[nxqp]/) return i
    return 0
}

function code(path, i) {
    do i = next_text(path, i); while (i && within[path, i])
    return i
}

# The token that closes the bracket at i.
function closing(path, i, open, shut,    level) {
    for (; i; i = code(path, i)) {
        level += (token[path, i] == open) - (token[path, i] == shut)
        if (level == 0) return i
    }
    fail(path ": a bracket that does not end")
}

# ---- names -------------------------------------------------------------------------------------------------

# Macros are found first, as their calls are no declarations.
function find_macros(path,    i, name) {
    for (i = 1; i <= tokens[path]; i++) {
        if (token[path, i] !~ /^#[ \t]*define$/) continue
        name = token[path, next_text(path, i)]
        if (path ~ /\.h$/ && name ~ /_H$/) { guard[path] = name; continue }
        if (name in feature || path ~ /names\.h$/) continue
        if (path ~ /\.h$/) macro[name] = path
        own_macro[path, name] = 1
        macros_of[path] = macros_of[path] " " name
    }
}

# `own`: the name is of this file alone, a static one or a type, and can be replaced.
function declare(path, name, own) {
    if (name == "") return
    if ((path, name) in declared) {
        if (own == 1) declared[path, name] = 1
        return
    }
    declared[path, name] = own
    files_of[name] = files_of[name] " " path
}

# Constants of an enum: the first name, and each after a comma.
function find_constants(path, from, to,    i, expected) {
    for (i = from; i < to; i = code(path, i)) {
        if (expected && kind[path, i] == "n") declare(path, token[path, i], 1)
        expected = token[path, i] == "{" || token[path, i] == ","
    }
}

# Reads one declaration at file scope, from i on; returns its last token. `found`: its name is known.
function read_declaration(path, i,    own, tag, last, found, t, k, start) {
    own = found = 0
    tag = last = ""
    start = i
    for (; i; i = code(path, i)) {
        t = token[path, i]
        if (t == ";") {
            if (!found) declare(path, last, own)
            if (!own && !(token[path, start] ~ /^(struct|union|enum)$/ && code(path, code(path, start)) == i)) begins[path, start] = last
            return i
        }
        if (t == "static" || t == "INLINE" || t == "typedef") own = 1
        else if (t ~ /^(struct|union|enum)$/) { tag = t; last = "" }
        else if (t ~ /^(__attribute__|_Static_assert|_Pragma)$/) i = closing(path, code(path, i), "(", ")")
        else if (t == "[") {
            k = closing(path, i, "[", "]")
            if (token[path, start] == "extern" && code(path, i) == k) unsized[last] = 1
            i = k
        }
        else if (t == "(") {
            k = code(path, i)
            if (!found && token[path, k] == "*") {
                do k = code(path, k); while (token[path, k] == "const")
                last = token[path, k]
            }
            k = closing(path, i, "(", ")")
            if (!found && (last in macro || (path, last) in own_macro)) { last = ""; start = code(path, k) }
            else if (!found) { declare(path, last, own); found = 1; if (path ~ /\.h$/ && token[path, code(path, i)] != "*") functions[last] = 1 }
            i = k
        } else if (t == "{") {
            k = closing(path, i, "{", "}")
            if (tag != "") {
                if (path ~ /\.c$/) declare(path, last, 2)
                if (tag == "enum") find_constants(path, i, k)
                tag = last = ""
            } else if (found < 2) { # a function's body
                if (!own) { begins[path, start] = last; bodies[last]++; body_in[last] = path; body_at[last] = start }
                return k
            }
            i = k
        } else if (t == "=") {
            if (!found) declare(path, last, own)
            found = 2
        } else if (t == ",") {
            if (!found) declare(path, last, own)
            found = 0
        } else if (kind[path, i] == "n" && !found) {
            last = t
            if (tag != "" && token[path, code(path, i)] != "{") tag = ""
        }
    }
    return tokens[path]
}

function find_names(path,    i) {
    for (i = code(path, 0); i; i = code(path, i)) i = read_declaration(path, i)
}

# The file's name, with its folder if a file of another folder has it, too.
function stem(path,    name, base, i, other) {
    name = path
    sub(/\.[ch]$/, "", name)
    base = name
    sub(/.*\//, "", base)
    for (i = 1; i <= loads; i++) {
        other = order[i]
        if (other ~ "(^|/)" base "\\.[ch]$" && substr(other, 1, length(name) + 1) != name ".") {
            sub(/^(tensor|layers|nn)\//, "", name)
            gsub(/\//, "_", name)
            return name
        }
    }
    return base
}

# The name with a number that no file has.
function another(name,    n) {
    for (n = 2; (name "_" n) in users; n++) continue
    users[name "_" n] = 1
    return name "_" n
}

# Finds the names of sources that another file has, too.
function find_clashes(    name, n, list, k, headers, keeper) {
    for (name in files_of) {
        n = split(files_of[name], list, " ")
        headers = 0
        for (k = 1; k <= n; k++) headers += list[k] ~ /\.h$/ && declared[list[k], name]
        if (headers > 1) complain("two headers declare " name ":" files_of[name])
        keeper = "" # the file that has the name most often keeps it
        for (k = 1; k <= n && !(name in macro) && !headers; k++)
            if (list[k] ~ /\.c$/ && declared[list[k], name] && (keeper == "" || uses[list[k], name] > uses[keeper, name])) keeper = list[k]
        for (k = 1; (n > 1 || name in macro) && k <= n; k++)
            if (list[k] ~ /\.c$/ && declared[list[k], name] && !(headers && declared[list[k], name] == 2) && list[k] != keeper) renamed[list[k], name] = another(name)
    }
    for (k in own_macro) {
        split(k, list, SUBSEP)
        if (list[1] ~ /\.c$/ && list[2] in macro) renamed[list[1], list[2]] = stem(list[1]) "__" list[2]
    }
    for (k in renamed) if (renamed[k] in files_of) fail("the name " renamed[k] " is taken")
}

# ---- text --------------------------------------------------------------------------------------------------

# The text that replaces the #include at i.
function included(path, i,    name, k) {
    name = named(path, i)
    if (name != "" || !system_name) return name == "" ? "" : insert(name)
    for (k = i + 1; within[path, k]; k++) if (kind[path, k] !~ /[cs]/) name = name token[path, k]
    if (substr(name, 2, length(name) - 2) in instead && instead[substr(name, 2, length(name) - 2)] != path) return ""
    if (name in system_headers) return ""
    if (depth[path, i] > (path ~ /\.h$/) || in_part) return "#include " name
    system_headers[name] = 1
    system_list = system_list "#include " name "\n"
    return ""
}

# A file's text where it is first asked for.
function insert(path) {
    if (path in inserted) return ""
    inserted[path] = 1
    if (!(path in loaded)) fail(path " is not in the list")
    return text_of(path)
}

# A file's text with its names replaced, without its comments' margins and its include guard.
function text_of(path,    out, i, t, previous, level, is_struct, pending, level_of_offset, parens, in_weak, begins_static, statement, braces, weak_at, strong, recent, list_level,
                 list_parens, list_at, list_count) {
    out = ""
    level = parens = level_of_offset = 0
    for (i = 1; i <= tokens[path]; i++) {
        t = token[path, i]
        if (t ~ /^#[ \t]*include$/) {
            out = out included(path, i)
            while (within[path, i + 1]) i++
            continue
        }
        if (t ~ /^#[ \t]*(define|ifndef)$/ && (token[path, next_text(path, i)] in feature ||
            (path in guard && token[path, next_text(path, i)] == guard[path]))) {
            while (within[path, i + 1]) i++
            continue
        }
        # Functions of other libraries are not declared here, so that their names need no replacement.
        if (t ~ /^#[ \t]*define$/ && path ~ /names\.h$/ && !is_public(token[path, next_text(path, i)])) {
            while (within[path, i + 1]) i++
            continue
        }
        if (t ~ /^#[ \t]*endif/ && depth[path, i] == 0 && path in guard) {
            while (within[path, i + 1]) i++
            continue
        }
        if ((path, i) in begins && path ~ /\.h$/ && !(path in shown) && token[path, i] != "__declspec" && is_needless(begins[path, i])) {
            while (token[path, i] != ";") i++
            continue
        }
        if (is_weak(path, i)) {
            weak_at = out
            strong = strong_file(path, i)
            weak_public = is_public(WEAK_NAME)
            out = ""
            i += 5
            in_weak = 1
            continue
        }
        if (in_weak && t == ";") {
            in_weak = 0
            out = (weak_public ? "" : "static ") substr(out, 2) ";"
            # Without a value, the header's declaration is enough.
            if (!weak_public && out !~ /=/ || strong != "" && condition(strong) == "") out = ""
            else if (strong != "") out = "#if !(" condition(strong) ")\n" out "\n#endif"
            out = weak_at out
            continue
        }
        if (kind[path, i] ~ /[nxqp]/) {
            if (!within[path, i]) {
                if (t == "struct" || t == "union") pending = 1
                else if (t == "{") { is_struct[++level] = pending; pending = 0 }
                else if (t == "}") level--
                else if (t ~ /^[;=)]$/) pending = 0
            }
            begins_static = 0
            if (within[path, i]) {
                if (!within[path, i - 1] || kind[path, i - 1] == "d") statement = braces = 0
                if (statement && !braces && t ~ /^(const|extern)$/ && is_pasted_object(path, i)) begins_static = 1
                braces += (t == "{") - (t == "}")
                statement = t ~ /^[;})]$/ || t == "\\" && statement
            } else begins_static = is_internal(path, i)
            if (begins_static && t == "extern") { t = "static"; begins_static = 0 }
            parens += (t == "(") - (t == ")")
            if (previous ~ /^(offsetof|ST_FIELD)$/) level_of_offset = parens
            if (parens < level_of_offset) level_of_offset = 0
            if ((path, t) in renamed && previous != "." && previous != "->" &&
                !(level_of_offset && previous == ",") &&
                !(level > 0 && is_struct[level] && previous != "[" && token[path, next_text(path, i)] ~ /^[][;,):]$/))
                t = renamed[path, t]
            if (is_compact(path)) t = short_name(path, i, t)
            # tcc takes tensors and shapes in a list only in parentheses, and with their number.
            if (begins_static) { t = "static " t; begins_static = 0 }
            if (t == "}" && list_level && level == list_level - 1) {
                t = ")" t
                list_level = 0
                out = substr(out, 1, list_at) list_count substr(out, list_at + 1)
            }
            if (t == "," && list_level && level == list_level && parens == list_parens) {
                t = "), ("
                list_count++
            }
            if (t == "{" && recent ~ /(\(st_(tensor|shape)\[\]\)|st_(tensor|shape)[a-z_]+\[\]=)$/) {
                t = t "("
                list_level = level
                list_parens = parens
                list_count = 1
                for (list_at = length(out); substr(out, list_at, 2) != "[]";) list_at--
            }
            recent = substr(recent, length(recent) - 40) token[path, i]
            previous = token[path, i]
        }
        if (kind[path, i] == "c" && !comments) t = ""
        if (kind[path, i] == "s" && t != "\n" && is_compact(path) && !parts_tokens(path, i, out)) t = ""
        out = out t
    }
    return out
}

# Tests if blanks are needed: to indent a line, after the name of a macro, and between words or operators.
function parts_tokens(path, i, out,    before, after) {
    before = substr(out, length(out))
    after = substr(token[path, i + 1], 1, 1)
    if (before == "" || before == "\n" || kind[path, i - 1] == "d" || kind[path, i - 2] == "d" || kind[path, i - 3] == "d") return 1
    return before ~ /[A-Za-z0-9_"']/ && after ~ /[A-Za-z0-9_"']/ || before ~ OPERATOR && after ~ OPERATOR
}

function is_public(name,    n, list, k) {
    n = split(files_of[name], list, " ")
    for (k = 1; k <= n; k++) if (list[k] in shown) return 1
    return 0
}

# Tests if a declaration begins at i that no public header has: it becomes static, unless a private header did that.
function is_internal(path, i,    name) {
    if (!((path, i) in begins) || path in shown || token[path, i] == "__declspec") return 0
    name = begins[path, i]
    if (files_of[name] == "" || name in unsized || is_public(name)) return 0
    if (path ~ /\.c$/ && is_needless(name)) return 1
    return path ~ /\.h$/ || files_of[name] !~ /\.h/ || !(name in functions)
}

# Tests if a function of a private header is defined before all its uses, so that it needs no declaration.
function is_needless(name,    i, k, p) {
    if (name in needless) return needless[name]
    needless[name] = 0
    p = body_in[name]
    if (bodies[name] != 1 || !(name in functions)) return 0
    for (i = 1; i <= loads; i++)
        if ((order[i], name) in uses && order[i] ~ /\.h$/ && !((order[i], name) in declared)) return 0
    for (i = 1; files[i] != p; i++) if (i > count || (files[i], name) in uses) return 0
    for (i = 1; i < body_at[name]; i++) if (token[p, i] == name) return 0
    for (k = 1; k <= loads; k++) if (order[k] ~ /\.h$/ && (order[k], name) in uses) i = mentions(order[k], name)
    return needless[name] = i == 1
}

# How often a header has a name outside of comments.
function mentions(path, name,    i, n) {
    for (i = 1; i <= tokens[path]; i++) n += token[path, i] == name && kind[path, i] == "n"
    return n
}

# Tests if an object whose name is pasted together is declared or defined at i, in a macro's body.
function is_pasted_object(path, i,    k, pasted_name, first) {
    for (k = i; within[path, k] && token[path, k] !~ /^[;=(]$/; k++) {
        if (token[path, k] == "##" && !pasted_name) pasted_name = 1
        if (kind[path, k] == "n" && !pasted_name) first = token[path, k]
    }
    return pasted_name && within[path, k] && token[path, k] != "(" && first !~ /^st_/
}

# Tests if a weak definition begins at i.
function is_weak(path, i) {
    return token[path, i] == "__attribute__" && token[path, i + 3] == "weak" && token[path, i - 1] == "\n"
}

# The file with the strong definition of the weak one at i, whose name is then WEAK_NAME; "" if none is joined.
function strong_file(path, i,    name, k, n, list) {
    for (; token[path, i] !~ /^[;=]$/; i++)
        if (kind[path, i] == "n" && (path, token[path, i]) in declared && !declared[path, token[path, i]]) name = token[path, i]
    WEAK_NAME = name
    n = split(files_of[name], list, " ")
    for (k = 1; k <= n; k++) if (list[k] ~ /\.c$/ && list[k] != path) return list[k]
    return ""
}

# The program NAME of the page `programs`, as lines of a comment: what follows "cat >NAME" up to END.
function program(name,    line, text, inside) {
    while ((getline line <programs) > 0) {
        if (line == "END") inside = 0
        if (inside) text = text " *     " line "\n"
        if (index(line, "cat >" name " <<") == 1) inside = 1
    }
    close(programs)
    if (text == "") fail(programs ": no program " name)
    return text
}

# The text of a file, in which VERSION and lines LICENSE and PROGRAM NAME are replaced.
function slurp(path,    line, text, own) {
    while ((getline line <path) > 0) {
        if (line ~ /^LICENSE/) {
            while ((getline own <license) > 0) text = text (own == "" ? " *" : " * " own) "\n"
            close(license)
            line = " */"
        }
        sub(/VERSION/, version, line)
        text = text (line ~ /^PROGRAM / ? program(substr(line, 9)) : line "\n")
    }
    close(path)
    return text
}

# ---- the list ----------------------------------------------------------------------------------------------

# Scans a file once, with the names that it declares.
function load(path) {
    if (path in loaded) return
    loaded[path] = 1
    scan(path)
    find_macros(path)
}

# The header that is named by the #include at i; "" if it is the system's.
function named(path, i,    name) {
    name = ""
    for (i++; within[path, i]; i++) if (kind[path, i] !~ /[cs]/) name = name token[path, i]
    system_name = name ~ /^</
    name = substr(name, 2, length(name) - 2)
    if (name in instead && instead[name] != path) return instead[name]
    return system_name ? "" : name
}

# Loads a file and what it includes; `of` is the part that asks for it.
function load_all(path, of,    i, name) {
    if ((path, of) in wanted) return
    wanted[path, of] = 1
    wants[path]++
    if (!(path in loaded)) {
        load(path)
        order[++loads] = path
    }
    for (i = 1; i <= tokens[path]; i++)
        if (token[path, i] ~ /^#[ \t]*include$/ && (name = named(path, i)) != "") load_all(name, of)
}

# Headers that a file of one part includes, and files of others as well, stand in front of the part.
function shared_headers(path,    out, i, name) {
    for (i = 1; i <= tokens[path]; i++) {
        if (token[path, i] !~ /^#[ \t]*include$/ || (name = named(path, i)) == "" || name in inserted) continue
        out = out (wants[name] > 1 ? insert(name) : shared_headers(name))
    }
    return out
}

# The condition under which a file is compiled; "" if it always is.
function condition(path,    n, list, k, out) {
    n = split(part[path], list, " ")
    for (k = 1; k <= n; k++) {
        out = out (k > 1 ? " && " : "")
        out = out (list[k] ~ /^!/ ? "defined(" substr(list[k], 2) ")" : "!defined(" list[k] ")")
    }
    return out
}

# Runs of blank lines become one, and lines lose spaces at their ends and before a backslash. With `indent` a tab stands for
# four spaces in front, and for the spaces that align a line with a bracket above.
function tidy(text, indent,    n, lines, i, out, blank, width, base) {
    n = split(text, lines, "\n")
    blank = 1
    base = 0
    for (i = 1; i <= n; i++) {
        sub(/[ \t]+$/, "", lines[i])
        sub(/[ \t]+\\$/, " \\", lines[i])
        if (lines[i] == "" && blank) continue
        blank = lines[i] == ""
        if (indent) {
            match(lines[i], /^ */)
            width = RLENGTH
            if (width <= base + 4) base = width - width % 4
            lines[i] = tabs((width > base + 4 ? base + 4 : width) / 4) substr(lines[i], width + 1)
        }
        out = out lines[i] "\n"
    }
    return out
}

# Files of subfolders, and their headers that are not public, have no blanks that the compiler does not need.
function is_compact(path) {
    return path ~ /\/.*\// && !(path in shown)
}

# Reads the short names that begin.c gives: typedef NAME SHORT; and #define SHORT NAME after its comment.
function read_short_names(path,    line, w, begun) {
    while ((getline line <path) > 0) {
        split(line, w, /[ ;]+/)
        if (line ~ /^\/\* Short names/) begun = 1
        if (begun && w[1] == "typedef" && w[2] != "const") shorter[w[2]] = w[3]
        if (begun && w[1] == "#define" && w[3] != "const") shorter[w[3]] = w[2]
    }
    close(path)
}

# Functions and types that have a short name; a type's goes over to const before it.
function short_name(path, i, t) {
    if (t == "const" && token[path, next_text(path, i)] in shorter) return ""
    if (!(t in shorter)) return t
    return (token[path, i - 1] ~ /^ *$/ && token[path, i - 2] == "const" ? "c" : "") shorter[t]
}

# Lines without indentation, of about 160 columns, which end where directives begin.
function folded(text,    n, lines, i, out, line, directive) {
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++) {
        sub(/^[ \t]+/, "", lines[i])
        if (lines[i] == "" && directive == "goes on") directive = "over"
        if (lines[i] == "") continue
        if (directive == "over" || directive == "" && lines[i] ~ /^#/) {
            out = out line "\n"
            line = ""
            directive = lines[i] ~ /^#/ ? "goes on" : ""
        }
        if (directive != "") directive = sub(/[ \t]*\\$/, "", lines[i]) ? "goes on" : "over"
        if (length(line) + length(lines[i]) > 160 && line !~ /^#[ \t]*define [A-Za-z0-9_]+$/) {
            out = out line (directive == "" ? "\n" : "\\\n")
            line = directive != "" && parts(line, lines[i]) ? " " lines[i] : lines[i]
        } else line = line (parts(line, lines[i]) ? " " : "") lines[i]
    }
    return out line "\n"
}

# A blank, or the end of a line, must stand between two pieces of text.
function parts(left, right,    last, first) {
    last = substr(left, length(left))
    first = substr(right, 1, 1)
    if (left ~ /^#[ \t]*define [A-Za-z0-9_]+$/) return 1
    if (last ~ /[eEpP]/ && first ~ /[-+]/) return 1
    return last ~ /[A-Za-z0-9_]/ && first ~ /[A-Za-z0-9_."']/ || last ~ OPERATOR && first ~ OPERATOR
}

function tabs(n) {
    return substr("\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t\t", 1, n)
}

function source_text(path,    text, n, list, k, before) {
    if (part[path] != "") before = tidy(shared_headers(path), 1)
    in_part = part[path] != ""
    text = tidy(text_of(path), 1)
    if (is_compact(path)) text = folded(text)
    n = split(macros_of[path], list, " ")
    for (k = 1; k <= n; k++) if (users[list[k]] > 1) text = text "#undef " ((path, list[k]) in renamed ? renamed[path, list[k]] : list[k]) "\n"
    n = split(pasted[path], list, " ")
    for (k = 1; k <= n; k++) text = "#define " list[k] " " stem(path) "__" list[k] "\n" text "#undef " list[k] "\n"
    if (path in fused) text = "FUSED_BEGIN\n" text "FUSED_END\n"
    text = "\n/* ---- " path " ---- */\n\n" text
    in_part = 0
    return part[path] == "" ? text : before "#if " condition(path) "\n" text "#endif\n"
}

BEGIN {
    OPERATOR = "[-+*/%&|<>=!^.#:]"
    n = split("_GNU_SOURCE _POSIX_C_SOURCE _XOPEN_SOURCE _DEFAULT_SOURCE _DARWIN_C_SOURCE", list, " ")
    for (i = 1; i <= n; i++) feature[list[i]] = 1
}
/^#/ || !NF { next }
$1 == "begin" { begin[$2] = $3 }
$1 == "public" { public[$2] = 1; public_order[++publics] = $2 }
$1 == "file" || $1 == "fused" {
    files[++count] = $2
    for (i = 3; i <= NF; i++) part[$2] = part[$2] " " $i
}
$1 == "fused" { fused[$2] = 1 }
$1 == "pasted" { for (i = 3; i <= NF; i++) pasted[$2] = pasted[$2] " " $i }
$1 == "instead" { instead[$2] = $3 }
$1 == "beside" { beside = $3; beside_part = $2 }
END {
    if (failed) exit 1
    read_short_names(begin["source"])
    for (i = 1; i <= publics; i++) load_all(public_order[i], "")
    for (path in loaded) shown[path] = 1
    for (i = 1; i <= count; i++) load_all(files[i], part[files[i]])
    for (i = 1; i <= loads; i++) find_names(order[i])
    find_clashes()
    if (failed) exit 1

    comments = 1
    for (i = 1; i <= publics; i++) body = body "\n" insert(public_order[i])
    printf "%s\n%s%s", slurp(begin["header"]), system_list, tidy(body, 0) "#endif\n" >header
    comments = 0
    system_list = body = ""
    for (name in unsized) if (name !~ /^st_/) own = own "#define " name " ONE_NAME(" name ")\n"
    for (i = 1; i <= count; i++) {
        if (beside != "" && index(part[files[i]] " ", " " beside_part " ")) other = other source_text(files[i])
        else body = body source_text(files[i])
    }
    if (beside != "") body = body "\n#ifndef " beside_part "\n#include \"" beside "\"\n#endif\n"
    printf "%s\n%s%s%s", slurp(begin["source"]), system_list, own, body >source
    if (beside == "") exit
    sub(/[^\/]*$/, "", source)
    printf "%s%s", slurp(begin["beside"]), other >(source beside)
}
