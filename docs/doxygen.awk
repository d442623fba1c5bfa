# doxygen.awk HEADER: the header with its comments as Doxygen has them. A comment above a paragraph of declarations is
# said before each of them that has none beside it, which is how it is read in the header; a line of dashes that names
# a section is dropped, and so is a comment that stands alone. Indented lines are shown as they are.

# The text of a comment as Doxygen's markup.
function markup(text,   lines, n, i, out, shown) {
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++) {
        if (lines[i] ~ /^    / && !shown) { out = out "@verbatim\n"; shown = 1 }
        if (lines[i] !~ /^    / && lines[i] != "" && shown) { out = out "@endverbatim\n"; shown = 0 }
        if (!shown) gsub(/[\\@&#<>%$"]/, "\\\\&", lines[i])
        if (!shown) gsub(/[*]|::/, "\\\\&", lines[i])
        out = out lines[i] (i < n ? "\n" : "")
    }
    return out (shown ? "\n@endverbatim" : "")
}

# The comment that begins in `rest`, with the lines that it takes: `comment` is its text, `rest` what follows it.
function read_comment(   at, line) {
    rest = substr(rest, 3)
    comment = ""
    while (!(at = index(rest, "*/"))) {
        comment = comment rest "\n"
        if ((getline rest) <= 0) { rest = ""; return }
        if (rest !~ /^ *\*\//) sub(/^ ?\* ?/, "", rest)
    }
    comment = comment substr(rest, 1, at - 1)
    rest = substr(rest, at + 2)
    sub(/^ /, "", comment)
    sub(/ *$/, "", comment)
    # The dashes around the name of a section.
    sub(/^-+ /, "", comment) && sub(/ *-+ *\**(\n|$)/, "\n", comment)
}

FNR == 1 {
    rest = $0
    read_comment()
    sub(/^[^:]*: /, "", comment)
    print "/** @file\n" markup(comment) " */"
    next
}
/^ST_API_(BEGIN|END)$/ { print ""; next }
macro || /^[ \t]*#/ {
    if (!macro && above != "" && $0 ~ /# *define/ && $0 !~ /_H$/) print "/** " above " */"
    macro = /\\$/
    if (/\/\*/) sub(/\/\* /, "/**< ")
    print
    next
}
depth == 0 && /^$/ { above = ""; print; next }

# A comment on lines of its own.
/^[ \t]*\/\*/ {
    section = /^\/\* ----.*---- *\*\/$/
    rest = $0
    sub(/^[ \t]*/, "", rest)
    read_comment()
    if (section) next
    if (depth > 0) print "/** " markup(comment) " */"
    else above = markup(comment)
    next
}

# A declaration, or a part of one: comments beside it are about what comes before them.
{
    line = ""
    rest = $0
    while ((at = index(rest, "/*"))) {
        line = line substr(rest, 1, at - 1)
        rest = substr(rest, at)
        read_comment()
        line = line "/**< " markup(comment) " */"
    }
    code = $0
    gsub(/\/\*.*/, "", code)
    if (depth == 0 && !open && above != "" && (first_of != above || line !~ /\/\*\*</)) {
        print "/** " above " */"
        first_of = above
    }
    print line rest
    depth += gsub(/\{/, "{", code) - gsub(/\}/, "}", code)
    open = depth > 0 || code !~ /[;}] *$/
}
