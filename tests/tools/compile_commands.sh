#!/bin/sh
# compile_commands.sh: the commands that `make -n` prints, on its input, as a compilation database of clang's tools: one
# entry a source, the first command that compiles it.
sed -e ':a' -e '/\\$/N; s/\\\n//; ta' | awk -v folder="$PWD" '
    BEGIN { printf "[" }
    match($0, / -c [^ ]+\.c -o /) {
        file = substr($0, RSTART + 4, RLENGTH - 8)
        if (seen[file]++) next
        command = $0
        sub(/^[ \t@]+/, "", command)
        gsub(/\\/, "\\\\", command)
        gsub(/"/, "\\\"", command)
        printf "%s\n{ \"directory\": \"%s\", \"file\": \"%s\", \"command\": \"%s\" }", count++ ? "," : "", folder, file, command
    }
    END { print "\n]" }'
