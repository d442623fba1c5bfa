# claims.sh: how a script of tests/ tells what it holds; sourced, with $tmp set, in the project's folder.
#
#     claim "NAME" COMMAND...          ok where the command succeeds; else what it said, and its last line again
#     claim_beside "NAME" COMMAND...   the same, beside the claims that follow: for what waits rather than computes
#     end_claims                       waits for these, and prints their lines
#     exit $failed
failed=0
beside=0

# Ends a script that tells nothing new, or does not work, in a sanitizer's build.
skip_sanitized() { # WHAT: REASON
    [ -z "${SANITIZE:-}" ] || { echo "skip $1"; exit 0; }
}

claim() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$tmp/log" 2>&1; then
        echo "ok $name"
    else
        cat "$tmp/log"
        echo "not ok $name: $(tail -n 1 "$tmp/log")"
        failed=1
    fi
}

# Its $tmp, $out and $err are its own.
claim_beside() { # NAME COMMAND...
    local own=$tmp/beside-$((beside += 1))
    mkdir -p "$own"
    (tmp=$own out=$own/out err=$own/err && claim "$@") >"$own.said" 2>&1 &
}
end_claims() {
    local i
    wait
    for ((i = 1; i <= beside; i++)); do
        cat "$tmp/beside-$i.said"
        ! grep -q '^not ok' "$tmp/beside-$i.said" || failed=1
    done
}

# A claim about the library in double, or a skip if only float is built, as for a sanitizer with TESTED=float.
claim_in_double() { # NAME COMMAND...
    if [ -n "$LIB_DOUBLE" ]; then claim "$@"; else echo "skip $1: double is not built"; fi
}

# A library without what debuggers read, of which links take half the time.
lighter() { # ARCHIVE: prints the path of a copy, or its own where there is no objcopy
    if objcopy -g "$1" "$tmp/${1##*/}" 2>/dev/null; then echo "$tmp/${1##*/}"; else echo "$1"; fi
}

# The last command that a script has run: its output in $out and $err and its status in $status.
because() { # WHAT: tells what it did, and fails
    echo "$1; status $status, stdout and stderr:"
    tail -n 20 "$out"
    echo --
    tail -n 20 "$err"
    return 1
}
lines() { # FILE: how many it has, by the shell itself
    local line count=0
    while IFS= read -r line || [ -n "$line" ]; do count=$((count + 1)); done <"$1"
    echo $count
}
