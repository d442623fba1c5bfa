#!/bin/sh
# unpack.sh FOLDER ARCHITECTURE PACKAGE...: a Debian's packages, and all that they depend on, unpacked into
# FOLDER/root. ARCHITECTURE is the packages' own, as dpkg names it, or "native".
#
# Nothing is installed and nothing in the system changes: the lists, the cache and the record of what is
# installed are FOLDER's. Silent, and quick, when all is there; where there is no apt-get, nothing happens.
set -eu
command -v apt-get >/dev/null && command -v dpkg >/dev/null || exit 0
mkdir -p "$1"
folder=$(cd "$1" && pwd)
architecture=$2
shift 2
[ "$architecture" != native ] || architecture=$(dpkg --print-architecture)
if [ "$(cat "$folder/packages" 2>/dev/null)" = "$architecture: $*" ]; then exit 0; fi

rm -rf "$folder/root" "$folder/apt" "$folder/packages"
mkdir -p "$folder/root" "$folder/apt/lists/partial" "$folder/apt/archives/partial"
: >"$folder/apt/status"
apt() {
    apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o APT::Sandbox::User="$(id -un)" -o Dir::State="$folder/apt" -o Dir::State::status="$folder/apt/status" \
        -o Dir::Cache="$folder/apt" "$@" >&2
}
echo "deps: unpacking $* ($architecture) into $folder/root" >&2
apt update
apt install --download-only -y --no-install-recommends "$@"
for package in "$folder"/apt/archives/*.deb; do dpkg -x "$package" "$folder/root"; done

# An absolute link starts at the folder.
find "$folder/root" -type l | while read -r link; do
    target=$(readlink "$link")
    case $target in
    /*) ln -sfn "$folder/root$target" "$link" ;;
    esac
done
rm -rf "$folder/apt"
echo "$architecture: $*" >"$folder/packages"
