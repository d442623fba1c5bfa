#!/bin/sh
# deps.sh build|check|bare|coverage|conformance|bench|onnx|mpi|arm|web|everywhere: installs what building and
# testing need, or what `make check`, `make check-bare`, `make coverage`, `make conformance`, `make bench-peers`,
# `make onnx-check`, `make MPI=1`, `make check-cpu`, `make web-check` or `make everywhere` needs besides.
#
# A need is missing if the compiler cannot find it, whatever a package manager says. Silent,
# and quick, when nothing is.
set -u
CC=${CC:-cc}
PKG_CONFIG=${PKG_CONFIG:-pkg-config}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# One line a need: what apt, dnf, pacman and brew call it. "-": comes with another; "a|b": the first known.
table='
compiler      gcc,libc6-dev                       gcc                 gcc          gcc
pkg-config    pkg-config                          pkgconf-pkg-config  pkgconf      pkgconf
openblas      libopenblas-dev                     openblas-devel      openblas     openblas
jansson       libjansson-dev                      jansson-devel       jansson      jansson
zlib          zlib1g-dev                          zlib-devel          zlib         zlib
cmocka        libcmocka-dev                       libcmocka-devel     cmocka       cmocka
clang         clang                               clang               clang        llvm
clang-format  clang-format                        clang-tools-extra   clang        clang-format
clang-runtime libclang-rt-dev|libclang-rt-14-dev  compiler-rt         compiler-rt  -
sanitizers    libasan8|libasan6                   libasan,libubsan    -            -
libpng        libpng-dev                          libpng-devel        libpng       libpng
libturbojpeg  libturbojpeg0-dev                   turbojpeg-devel     libjpeg-turbo jpeg-turbo
valgrind      valgrind                            valgrind            valgrind     -
cmake         cmake                               cmake               cmake        cmake
debootstrap   debootstrap                         debootstrap         debootstrap  -
gcovr         gcovr                               gcovr               gcovr        gcovr
doxygen       doxygen                             doxygen             doxygen      doxygen
mandoc        mandoc                              mandoc              mandoc       mandoc
browser       chromium                            chromium            chromium     -
driver        chromium-driver                     chromedriver        -            chromedriver
emscripten    emscripten                          emscripten          emscripten   emscripten
onnx-cases    libonnx-testdata                    -                   -            -
onnx-proto    libonnx-dev                         -                   -            -
onnx-checker  python3-onnx                        -                   -            -
protobuf-c    protobuf-c-compiler,libprotobuf-c-dev protobuf-c-compiler,protobuf-c-devel protobuf-c protobuf-c
numpy         python3-numpy                       -                   -            -
torch         python3-torch                       -                   -            -
onednn        libdnnl-dev                         -                   -            -
node          nodejs                              nodejs              nodejs       node
npm           npm                                 npm                 npm          -
arm-compiler  gcc-aarch64-linux-gnu               -                   -            -
mpi           libopenmpi-dev,openmpi-bin         openmpi-devel       openmpi      open-mpi
emulator      qemu-user                           qemu-user           qemu-user    -
tcc           tcc                                 tcc                 -            -
musl          musl-tools                          musl-gcc            musl         -
mingw         gcc-mingw-w64-x86-64                mingw64-gcc         mingw-w64-gcc mingw-w64
wine          wine64,wine                         wine                wine         -
arm64         gcc-aarch64-linux-gnu,libc6-dev-arm64-cross - -        -
arm32         gcc-arm-linux-gnueabihf,libc6-dev-armhf-cross - -      -
riscv         gcc-riscv64-linux-gnu,libc6-dev-riscv64-cross - -      -
power         gcc-powerpc64le-linux-gnu,libc6-dev-ppc64el-cross - -  -
s390x         gcc-s390x-linux-gnu,libc6-dev-s390x-cross - -          -
x86-32        gcc-i686-linux-gnu,libc6-dev-i386-cross - -            -
'

compiles() { # compiler, flags...: does a program with these, and $headers, link?
    compiler=$1
    shift
    # shellcheck disable=SC2086
    printf '%s\n' '#include <setjmp.h>' '#include <stdarg.h>' '#include <stddef.h>' '#include <stdint.h>' \
        "${headers:-}" 'int main(void) { return 0; }' |
        $compiler -x c - "$@" -o "$scratch/program" >/dev/null 2>&1
}

has_library() { # lines "header packages,to,try fallback-flag": does a program with all of them link?
    headers='' flags=''
    while read -r header packages fallback; do
        [ -n "$header" ] || continue
        headers="$headers
#include <$header>"
        found=$fallback
        for package in $(echo "$packages" | tr , ' '); do
            answer=$($PKG_CONFIG --cflags --libs "$package" 2>/dev/null) && found=$answer && break
        done
        flags="$flags $found"
    done
    # shellcheck disable=SC2086
    compiles "$CC" $flags
}

libraries='
openblas cblas.h   openblas,cblas,blas -lopenblas
jansson  jansson.h jansson             -ljansson
zlib     zlib.h    zlib                -lz
cmocka   cmocka.h  cmocka              -lcmocka
'

# The reference BLAS has the same header and functions, and takes 20 to 50 times as long.
has_fast_blas() {
    [ "$(uname -s)" = Darwin ] && return
    flags=-lopenblas
    for package in openblas cblas blas; do
        answer=$($PKG_CONFIG --libs $package 2>/dev/null) && flags=$answer && break
    done
    for function in openblas_get_config bli_info_get_version_str mkl_get_version_string; do # OpenBLAS, BLIS, MKL
        # shellcheck disable=SC2086
        printf 'char *%s(void);\nint main(void) { return !%s(); }\n' $function $function |
            $CC -x c - $flags -o "$scratch/program" >/dev/null 2>&1 && return
    done
    return 1
}

missing_for_build() {
    # The usual case, in two compilations.
    echo "$libraries" | sed 's/^[a-z]* *//' | has_library && has_fast_blas && return
    headers=''
    compiles "$CC" || echo compiler
    $PKG_CONFIG --version >/dev/null 2>&1 || echo pkg-config
    echo "$libraries" | while read -r name line; do
        [ -z "$name" ] || echo "$line" | has_library || echo "$name"
    done
    echo 'openblas cblas.h openblas,cblas,blas -lopenblas' | sed 's/^[a-z]* *//' | has_library && ! has_fast_blas &&
        echo openblas
}

missing_for_check() {
    headers=''
    command -v clang >/dev/null || echo clang
    command -v clang-format >/dev/null || echo clang-format
    for tool in valgrind cmake doxygen mandoc; do command -v $tool >/dev/null || echo $tool; done
    $PKG_CONFIG --exists libpng || echo libpng
    $PKG_CONFIG --exists libturbojpeg || echo libturbojpeg
    compiles clang -fsanitize=address,undefined || echo clang-runtime
    compiles "$CC" -fsanitize=address,undefined || echo sanitizers
}

missing_for_bare() {
    command -v debootstrap >/dev/null || echo debootstrap
}

missing_for_coverage() {
    command -v gcovr >/dev/null || echo gcovr
}

# Those of a Debian: elsewhere the suites that need them are skipped.
missing_for_conformance() {
    command -v apt-get >/dev/null || return
    [ -d /usr/share/libonnx-testdata/data/node ] || echo onnx-cases
    /usr/bin/python3 -c 'import onnx' 2>/dev/null || echo onnx-checker
    for module in numpy torch; do
        python3 -c "import $module" 2>/dev/null || /usr/bin/python3 -c "import $module" 2>/dev/null || echo $module
    done
}

# PyTorch and oneDNN from a Debian, where the versions are those that are compared with; node for onnxruntime.
missing_for_bench() {
    command -v node >/dev/null || echo node
    command -v npm >/dev/null || echo npm
    command -v apt-get >/dev/null || return
    [ -f /usr/include/oneapi/dnnl/dnnl.h ] || echo onednn
    [ -f /usr/include/onnx/onnx.proto ] || echo onnx-proto
    { command -v protoc-c && $PKG_CONFIG --exists libprotobuf-c; } >/dev/null 2>&1 || echo protobuf-c
    /usr/bin/python3 -c 'import torch' 2>/dev/null || echo torch
}

# ONNX's own description and checker from a Debian; node for onnxruntime.
missing_for_onnx() {
    command -v node >/dev/null || echo node
    command -v npm >/dev/null || echo npm
    { command -v protoc-c && $PKG_CONFIG --exists libprotobuf-c; } >/dev/null 2>&1 || echo protobuf-c
    command -v apt-get >/dev/null || return
    [ -f /usr/include/onnx/onnx.proto ] || echo onnx-proto
    /usr/bin/python3 -c 'import onnx.checker' 2>/dev/null || echo onnx-checker
}

missing_for_mpi() {
    headers='' flags=''
    command -v mpirun >/dev/null && echo 'mpi mpi.h ompi,mpich,mpi-c -lmpi' | sed 's/^[a-z]* *//' | has_library || echo mpi
}

missing_for_arm() {
    command -v apt-get >/dev/null || return
    command -v aarch64-linux-gnu-gcc >/dev/null || echo arm-compiler
    command -v qemu-aarch64 >/dev/null || echo emulator
}

# The page's compiler; any Chromium and what drives it, from node.
missing_for_web() {
    command -v emcc >/dev/null || echo emscripten
    command -v chromedriver >/dev/null || echo driver
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
        echo browser
    command -v node >/dev/null || echo node
}

# Compilers, emulators, and libraries of other machines from a Debian.
missing_for_everywhere() {
    while read -r tool need; do command -v "$tool" >/dev/null || echo "$need"; done <<END
clang clang
tcc tcc
musl-gcc musl
x86_64-w64-mingw32-gcc mingw
wine wine
emcc emscripten
node node
qemu-s390x emulator
END
    command -v apt-get >/dev/null || return
    while read -r machine need; do [ -f "/usr/$machine/include/stdio.h" ] && command -v "$machine-gcc" >/dev/null || echo "$need"; done <<END
aarch64-linux-gnu arm64
arm-linux-gnueabihf arm32
riscv64-linux-gnu riscv
powerpc64le-linux-gnu power
s390x-linux-gnu s390x
i686-linux-gnu x86-32
END
}

packages() { # manager's column, needs...: their names there
    column=$1
    shift
    for need; do
        names=$(echo "$table" | awk -v need="$need" -v column="$column" '$1 == need { print $column }')
        case $names in
        -) ;;
        *'|'*) for name in $(echo "$names" | tr '|' ' '); do
            if apt-cache show "$name" >/dev/null 2>&1; then echo "$name" && break; fi
        done ;;
        *) echo "$names" | tr , '\n' ;;
        esac
    done | tr '\n' ' '
}

missing=$("missing_for_$1")
[ -n "$missing" ] || exit 0

give_up() { # reason, names
    echo "deps: cannot find: $(echo "$missing" | tr '\n' ' ')" >&2
    echo "deps: $1; please install: $2" >&2
    exit 1
}

# The first package manager there is: its column above, and how it installs.
if command -v apt-get >/dev/null; then
    column=2 install="env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends"
elif command -v dnf >/dev/null; then
    column=3 install="dnf install -y"
elif command -v pacman >/dev/null; then
    column=4 install="pacman -S --needed --noconfirm"
elif command -v brew >/dev/null; then
    column=5 install="brew install"
else
    # shellcheck disable=SC2086
    give_up "no apt-get, dnf, pacman or brew" "$(packages 2 $missing)(as Debian names them)"
fi

if [ "$(id -u)" = 0 ] || [ $column = 5 ]; then
    root=
elif command -v sudo >/dev/null; then
    root=sudo
else
    # shellcheck disable=SC2086
    give_up "neither root nor sudo" "$(packages $column $missing)"
fi

# shellcheck disable=SC2086
{
    if [ $column = 2 ]; then
        $root apt-get -qq update >&2 ||
            echo "deps: apt-get update failed; trying with the lists at hand" >&2
    fi
    names=$(packages $column $missing)
    echo "deps: installing $names" >&2
    $root $install $names >&2 || give_up "installing failed" "$names"
}

missing=$("missing_for_$1")
[ -z "$missing" ] || give_up "that was installed, and $CC still finds no such thing" "$names"
