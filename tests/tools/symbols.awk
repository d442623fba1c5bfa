# symbols.awk HEADER...: what headers declare at their outermost level, a line each: "header:line kind name comment".
#
# The kind is function, inline, object, type, constants (of an enum without a name) or macro; include guards and static
# objects are left out. The comment is "documented" or "bare". One that stands above covers what follows it
# up to the next blank line; one beside a declaration covers that declaration, and one beside a field only the field.
# A line of dashes that names a section covers nothing. Where a name is declared twice, one comment is enough.

function finish(   name, kind, head) {
    gsub(/__attribute__ *\(\(([^()]|\([^()]*\))*\)\)/, "", text)
    gsub(/[ \t]+/, " ", text)
    sub(/^ /, "", text)
    head = text
    sub(/ *(=.*)?;? *$/, "", head)
    if (head ~ /^typedef /) {
        kind = "type"
        name = head
        if (name ~ /\(\*/) { sub(/.*\(\*/, "", name); sub(/[^a-zA-Z0-9_].*/, "", name) }
        else { sub(/ *\(.*/, "", name); sub(/.*[ *}]/, "", name) }
    } else if (head ~ /^enum *\{/) {
        kind = "constants"
        name = inner
        sub(/^[^a-zA-Z_]*/, "", name)
        sub(/[^a-zA-Z0-9_].*/, "", name)
    } else if (head ~ /^(struct|union|enum) [a-zA-Z0-9_]+ *(\{.*)?$/) {
        kind = "type"
        split(head, word, / /)
        name = word[2]
    } else if (head ~ /\(/) {
        kind = head ~ /^static / ? "inline" : "function"
        name = head
        sub(/ *\(.*/, "", name)
        sub(/.*[ *]/, "", name)
    } else if (head ~ /^extern /) {
        kind = "object"
        name = head
        sub(/ *\[.*/, "", name)
        sub(/.*[ *]/, "", name)
    } else kind = ""
    if (kind != "" && name != "") found(kind, name, above || beside || (kind == "constants" && within))
    text = inner = ""
    beside = within = 0
}

function found(kind, name, documented) {
    name = kind " " name
    if (!(name in where)) {
        where[name] = FILENAME ":" line
        order[++count] = name
    }
    if (documented) covered[name] = 1
}

FNR == 1 { in_comment = depth = above = 0; text = inner = "" }

# The line without its comments, and whether it has one.
{
    rest = $0
    code = ""
    has_comment = in_comment
    while (rest != "") {
        if (in_comment) {
            if (!(at = index(rest, "*/"))) break
            rest = substr(rest, at + 2)
            in_comment = 0
        } else if ((at = index(rest, "/*"))) {
            has_comment = 1
            code = code substr(rest, 1, at - 1)
            rest = substr(rest, at + 2)
            in_comment = 1
        } else {
            code = code rest
            rest = ""
        }
    }
}

FNR == 1 { next } # what the header is about
/^[ \t]*$/ && depth == 0 && !in_comment { above = 0; next }
macro { macro = /\\$/; next }

/^[ \t]*# *define / {
    line = FNR
    split(code, word, /[ (]+/)
    if (word[2] !~ /_H$/) found("macro", word[2], above || has_comment)
    macro = /\\$/
    next
}
/^[ \t]*#/ { next }
/^ST_API_(BEGIN|END)$/ { next }
/^template / { next } # the C++ side of a macro

code ~ /^[ \t]*$/ {
    if (has_comment && text == "" && $0 !~ /^\/\* ----.*(----|\*\/|\*)$/) above = 1
    if (has_comment && text != "") within = 1
    next
}

{
    if (text == "") line = FNR
    if (has_comment) {
        if (depth == 0 || FNR == line) beside = 1
        else within = 1
    }
    for (i = 1; i <= length(code); i++) {
        c = substr(code, i, 1)
        if (c == "}") {
            depth--
            if (depth == 0 && text ~ /\) *\{ *$/) { text = text "}"; finish(); continue } # an inline function's body
        }
        if (depth > 0) inner = inner c
        else text = text c
        if (c == "{") depth++
        if (c == ";" && depth == 0) finish()
    }
    if (text != "") text = text " "
    if (text ~ /^ *$/) text = ""
}

END {
    for (i = 1; i <= count; i++)
        print where[order[i]], order[i], (order[i] in covered) ? "documented" : "bare"
}
