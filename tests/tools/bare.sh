#!/usr/bin/env bash
# bare.sh FOLDER: runs the commands of README.md's section Start on a machine that has git, gcc and make alone.
#
# That machine is a root in FOLDER, made by debootstrap from the mirrors of this machine's apt and with its settings, of
# this machine's release, or of RELEASE, another one of the same system: its main part, from the first mirror. A
# clone of the last commit makes the core, where there is no header but the C library's, and not that of threads. Then
# it runs the commands twice:
#     root      in /root, which no other user may enter, without pseudo-terminals
#     a user    in a home folder, with the packages that root's run has installed and the objects that it has compiled:
#               the same compiler makes the same of the same sources, whoever runs it; tests in float alone
# Tests draw fewer cases (STRIDE_FAST=1): what a bare machine lacks is found by building, and by each test once.
#
# One line for each command: "ok   what: result", or "FAIL what" after the end of its log; one line "skip what: reason"
# where such a root cannot be made. Logs stay in FOLDER, and so does base.tar, the root before the first command.
#
# Everything runs in namespaces of its own: its mounts are never seen outside, and end with it, however it ends. If this
# script is killed, all that runs in the root is killed too, and only the folder stays, until the next run.
set -euo pipefail
what='the README on a bare machine'
needed=git,gcc,libc6-dev,make,ca-certificates
unwanted='clang cmake debootstrap doxygen g++ mpirun node pkg-config protoc-c python3 valgrind xmllint'
least=0.985 # accuracy that "99 %" rounds

skip() {
    echo "skip $what: $*"
    exit 0
}

fail() {
    echo "FAIL $what: $*"
    exit 1
}

# ---- this machine's apt ----------------------------------------------------------------------------------

# "URI suite component" of each source of the release.
sources() {
    if [ "$release" != "$own" ]; then
        release=$own sources | awk -v own="$own" -v release="$release" '$2 == own { print $1, release, "main"; exit }'
        return
    fi
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' "Origin: $origin" |
        awk -v release="$release" '$2 == release || index($2, release "-") == 1' | LC_ALL=C sort -u
}

# Fetches as apt does, with its proxies, passwords and certificates: what debootstrap asks of wget.
apt_as_wget() { # FOLDER
    mkdir -p "$1"
    cat >"$1/wget" <<'END'
#!/bin/sh
while [ $# -gt 1 ]; do
    case $1 in
    -O) to=$2 && shift ;;
    esac
    shift
done
exec /usr/lib/apt/apt-helper -qq download-file "$1" "$to"
END
    chmod +x "$1/wget"
}

settings() { # ROOT
    mkdir -p "$1/usr/local/share/ca-certificates"
    sources | sed 's/^/deb /' >"$1/etc/apt/sources.list"
    apt-config dump | grep '^Acquire::' >"$1/etc/apt/apt.conf.d/90machine" || true
    echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/quick"
    for part in /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/apt/trusted.gpg.d /etc/resolv.conf /etc/hosts \
        /usr/local/share/ca-certificates; do
        [ ! -e $part ] || cp -RL $part "$1$(dirname $part)/"
    done
    chroot "$1" update-ca-certificates >/dev/null 2>&1
}

# ---- the root --------------------------------------------------------------------------------------------

make_root() {
    local key
    key=$(printf '%s\n' "$needed" "$(sources)" | cksum)
    if [ "$(cat "$folder/base.key" 2>/dev/null)" = "$key" ] && tar -C "$root" -xf "$folder/base.tar"; then return; fi
    apt_as_wget "$folder/bin"
    PATH=$folder/bin:$PATH debootstrap --variant=minbase --include=$needed "$release" "$root" \
        "$(sources | awk -v release="$release" '$2 == release { print $1; exit }')" >"$folder/debootstrap.log" 2>&1 || {
        tail -n 20 "$folder/debootstrap.log"
        return 1
    }
    rm -f "$root"/var/cache/apt/archives/*.deb
    rm -f "$folder/base.key"
    tar -C "$root" --one-file-system -cf "$folder/base.tar" . && echo "$key" >"$folder/base.key"
}

home_of() { # USER: the path in the root
    awk -F : -v user="$1" '$1 == user { print $6 }' "$root/etc/passwd"
}

as() { # USER COMMAND...
    local user=$1 home
    home=$(home_of "$user")
    shift
    chroot --userspec="$user" "$root" env -i HOME="$home" USER="$user" LOGNAME="$user" TERM=dumb \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} "$@"
}

clone() { # USER
    chown -R --reference="$root$(home_of "$1")" "$root/srv/stride"
    as "$1" sh -c 'cd && git clone -q /srv/stride stride'
}

# The user's sources are older than these objects; libraries, programs and what is generated are made anew.
give_objects() {
    chroot "$root" sh -c 'cd /root/stride && find build -name "*.[od]" -o -name flags' |
        tar -C "$root/root/stride" -cf - --files-from - |
        chroot --userspec=someone "$root" tar -C /home/someone/stride -xf -
}

run_as() { # USER, where, VARIABLE...
    local user=$1 where=$2 began log result command
    shift 2
    for command in "${commands[@]}"; do
        log=$folder/$user-${command##* }.log began=$SECONDS
        if as "$user" STRIDE_FAST=1 "$@" sh -c "cd && cd stride && $command" >"$log" 2>&1 </dev/null && result=$(result_of "$log"); then
            echo "ok   $command $where: $result, $((SECONDS - began)) s"
        else
            grep -A 40 '^FAIL' "$log" || tail -n 40 "$log"
            echo "FAIL $command $where: see $log"
            status=1
        fi
    done
}

make_core() {
    local began=$SECONDS log=$folder/core.log
    mv "$root/usr/include/pthread.h" "$root/pthread.h"
    if as root sh -c 'cd && git clone -q /srv/stride core && cd core && make core' >"$log" 2>&1 </dev/null &&
        tail -n 1 "$log" | grep -q '^ok '; then
        echo "ok   make core with a C compiler alone: $((SECONDS - began)) s"
    else
        tail -n 40 "$log"
        echo "FAIL make core with a C compiler alone: see $log"
        status=1
    fi
    mv "$root/pthread.h" "$root/usr/include/pthread.h"
}

# The accuracy that a training ends with, or the tests' count; false where neither is good.
result_of() { # LOG
    tail -n 1 "$1" | awk -v least=$least '
        /^test accuracy=/ { split($2, part, "="); print "accuracy " part[2]; exit part[2] < least }
        /^[1-9][0-9]* passed, 0 failed/ { print; exit 0 }
        { exit 1 }'
}

inside() {
    local status=0 tool
    mkdir -p "$root" && mount --bind "$root" "$root" || fail "nothing can be mounted" # a root of mounts is one itself
    make_root || fail "debootstrap made no root"
    settings "$root"
    mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" || fail "nothing can be mounted"
    for tool in $unwanted; do
        ! as root sh -c "command -v $tool" >/dev/null || fail "$tool is installed, and not asked for"
    done
    git clone -q --no-hardlinks "$PWD" "$root/srv/stride"
    chroot "$root" useradd --create-home --shell /bin/bash someone

    chmod 700 "$root/root"
    make_core
    clone root && clone someone || return
    run_as root "as root in /root"
    mountpoint -q /dev/pts && mount --bind /dev/pts "$root/dev/pts"
    give_objects
    run_as someone "as an ordinary user" TESTED=float
    return $status
}

# ---- here ------------------------------------------------------------------------------------------------

folder=$(mkdir -p "$1" && cd "$1" && pwd)
root=$folder/root
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck disable=SC1091
{ origin=$(. /etc/os-release && echo "${NAME%% *}") && own=$(. /etc/os-release && echo "${VERSION_CODENAME:-}"); } 2>/dev/null ||
    skip "this machine has no /etc/os-release"
release=${RELEASE:-$own}
mapfile -t commands < <(sed -n '/^## Start/,/^## /s/^    \(make \)/\1/p' README.md)
((${#commands[@]} == 2)) || fail "README.md's section Start has ${#commands[@]} commands, expected 2"

if [ "${2:-}" = inside ]; then
    inside
    exit
fi

git rev-parse --git-dir >/dev/null 2>&1 || skip "this is no clone"
command -v apt-get >/dev/null || skip "apt-get is not installed"
((EUID == 0)) || skip "making a root takes root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed (make deps-bare)"
for tool in unshare setpriv flock; do
    command -v $tool >/dev/null || skip "$tool is not installed (util-linux)"
done
unshare --mount --pid --fork sh -c "mount --bind '$folder' '$folder'" 2>/dev/null || skip "root may not mount here"
[ -n "$(sources)" ] || apt-get -qq update || true
[ -n "$(sources)" ] || skip "apt has no source of ${release:-this release}"
exec 9>"$folder/lock"
flock --nonblock 9 || fail "another run has $folder"
[ -z "$(git status --porcelain)" ] || echo "     only what is committed is tested: $(git log -1 --format=%h)"

# Removes the root, once the processes in it have ended.
clean() {
    kill -KILL "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
    ! grep -q " $root/" /proc/self/mounts || fail "$root still has mounts"
    rm -rf --one-file-system "$root" 2>/dev/null || { sleep 1 && rm -rf --one-file-system "$root"; }
}
rm -rf --one-file-system "$root"
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child "$0" "$folder" inside &
child=$!
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
wait "$child"
