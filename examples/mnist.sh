#!/bin/sh
# mnist.sh: downloads MNIST to data/mnist, where the examples look for it. `make mnist` runs it first.
#
# Does nothing where MNIST_DIR is set, or where the files are in data/mnist or ../shared/mnist already. Each file is
# compared with its SHA-256, of the unpacked bytes, before it gets its name. Exits with 1 and one line on stderr where
# it fails; STRIDE_OFFLINE=1 forbids the download.
set -u
folder=data/mnist
copies=${MNIST_COPIES:-"https://ossci-datasets.s3.amazonaws.com/mnist https://storage.googleapis.com/cvdf-datasets/mnist"}
files='train-images-idx3-ubyte ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db
train-labels-idx1-ubyte 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5
t10k-images-idx3-ubyte 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7
t10k-labels-idx1-ubyte ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2'
part=

fail() { # REASON
    [ -z "$part" ] || rm -f "$part"
    rmdir "$folder" data 2>/dev/null # only where they are empty
    echo "MNIST could not be downloaded: $1" >&2
    exit 1
}
have() { [ -f "$1" ] || [ -f "$1.gz" ]; } # PATH
complete() { # FOLDER
    for name in $(echo "$files" | cut -d ' ' -f 1); do have "$1/$name" || return 1; done
}
get() { # URL PATH; the reason in $why
    if command -v curl >/dev/null; then why=$(curl -fsSL --connect-timeout 10 --max-time 600 -o "$2" "$1" 2>&1)
    elif command -v wget >/dev/null; then why=$(wget -q -T 10 -t 1 -O "$2" "$1" 2>&1 || echo "wget failed with $?")
    else why='neither curl nor wget is installed'
    fi
    [ -z "$why" ]
}
sum() { # PATH
    gzip -dc "$1" 2>/dev/null | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d ' ' -f 1
}
fetch() { # NAME SHA-256; the reason in $why
    for copy in $copies; do
        get "$copy/$1.gz" "$part" || continue
        [ "$(sum "$part")" = "$2" ] && mv "$part" "$folder/$1.gz" && return
        why="$copy/$1.gz: SHA-256 differs from $2"
    done
    return 1
}

if [ -n "${MNIST_DIR:-}" ] || complete "$folder" || complete ../shared/mnist; then exit 0; fi
case ${STRIDE_OFFLINE:-} in '' | 0) ;; *) fail 'STRIDE_OFFLINE is set' ;; esac
mkdir -p "$folder" || fail "$folder cannot be made"
part=$folder/.download.$$
trap 'rm -f "$part"; exit 1' INT TERM
echo "MNIST not found: downloading it to $folder" >&2
echo "$files" | while read -r name sha256; do
    have "$folder/$name" || fetch "$name" "$sha256" || fail "$why"
done
