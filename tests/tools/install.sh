#!/bin/sh
# install.sh install|uninstall: puts the libraries, and what goes with them, where others look for them, or takes
# away what it put there, and nothing else. The Makefile says in the environment what is to go where:
#
#     PREFIX BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR    folders, below DESTDIR while they are staged
#     VERSION SOVERSION HEADERS                         of Stride
#     STATIC SHARED SHARED_SO SHARED_DEV                each "of-float of-double": archives, libraries and their links
#     REQUIRES_PRIVATE LIBS_PRIVATE LIBS                what an archive needs: packages of pkg-config and other flags;
#                                                       all flags
#     MPI MPI_LIBS MPI_HEADERS                          not empty: libstride-mpi, too; what it needs
#     PICTURES PICTURE_LIBS PICTURES_HEADERS            not empty: libstride-pictures, too; what it needs
#     PROGRAM PROGRAM_DOUBLE RUN                        stride, which RUN can run, and the same in double; or nothing
# shellcheck disable=SC2016 # pkg-config and CMake expand those
set -eu
umask 022 # what is installed is for everyone
action=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

absolute() { # PATH: its last slashes off
    case $1 in
    /*) echo "$1" ;;
    *) echo "$PWD/$1" ;;
    esac | sed 's|//*$||'
}
PREFIX=$(absolute "$PREFIX")
BINDIR=$(absolute "$BINDIR")
LIBDIR=$(absolute "$LIBDIR")
INCLUDEDIR=$(absolute "$INCLUDEDIR")
DATADIR=$(absolute "$DATADIR")
MANDIR=$(absolute "$MANDIR")
CMAKEDIR=$LIBDIR/cmake/stride

# ---- what says how to build with the library --------------------------------------------------------------

# FOLDER WORD: the folder, with WORD for the prefix where it lies below it, so that all can be moved together.
below() {
    case $1 in
    "$PREFIX"/*) echo "$2${1#"$PREFIX"}" ;;
    *) echo "$1" ;;
    esac
}

# Programs that do not look there by themselves need these settings.
case $PREFIX in
/usr | /usr/local) rpath= ;;
*) rpath=' -Wl,-rpath,${libdir}' ;;
esac

escaped() { sed 's| |\\ |g'; }

begin_description() { # NAME WHAT: the beginning of a .pc file
    cat <<END
prefix=$(echo "$PREFIX" | escaped)
libdir=$(below "$LIBDIR" '${prefix}' | escaped)
includedir=$(below "$INCLUDEDIR" '${prefix}' | escaped)

Name: $1
Description: $2
Version: $VERSION
END
}

# NAME WHAT FLAGS REQUIRES REQUIRES-PRIVATE LIBS-PRIVATE: two .pc files, since packages come before those that they
# require. So the archive comes before the shared library, which is then not needed.
describe() {
    case $SHARED in
    *.dylib*) unneeded=-Wl,-dead_strip_dylibs ;;
    *) unneeded=-Wl,--as-needed ;;
    esac
    {
        begin_description "$1" "$2"
        cat <<END
Requires: ${4:+$4 }$1-shared
Requires.private: $5
Cflags: -I\${includedir}${3:+ $3}
Libs.private: \${libdir}/lib$1.a $6 $unneeded
END
    } >"$scratch/$1.pc"
    {
        begin_description "$1-shared" "$2: the shared library, which $1 requires"
        echo "Libs: -L\${libdir}$rpath -l$1 -lm" # layers of one's own call exp and its like
    } >"$scratch/$1-shared.pc"
}

describe_to_cmake() { # TARGET KIND FILE DEFINITION PROPERTY...
    target=$1 kind=$2 file=$3 definition=$4
    shift 4
    cat <<END

if(NOT TARGET stride::$target)
  add_library(stride::$target $kind IMPORTED)
  set_target_properties(stride::$target PROPERTIES
    IMPORTED_LOCATION "$(below "$LIBDIR" '${stride_prefix}')/$file"
    INTERFACE_INCLUDE_DIRECTORIES "$(below "$INCLUDEDIR" '${stride_prefix}')"
    INTERFACE_COMPILE_DEFINITIONS "$definition"
    $*
    INTERFACE_COMPILE_FEATURES c_std_11)
endif()
END
}

cmake_config() {
    case $CMAKEDIR in
    "$PREFIX"/*) up=$(below "$CMAKEDIR" . | sed 's|/[^/]*|/..|g; s|^\.||') prefix="\${CMAKE_CURRENT_LIST_DIR}$up" ;;
    *) prefix=$PREFIX ;;
    esac
    cat <<END
# find_package(stride) makes the targets stride::stride, in float, and stride::double, and for their archives
# stride::stride-static and stride::double-static.
get_filename_component(stride_prefix "$prefix" ABSOLUTE)
END
    needed="INTERFACE_LINK_LIBRARIES \"$(echo "$LIBS" | sed 's/^ *//; s/ *$//; s/  */;/g')\""
    describe_to_cmake stride SHARED "${SHARED% *}" "" "IMPORTED_SONAME \"${SHARED_SO% *}\" INTERFACE_LINK_LIBRARIES m"
    describe_to_cmake double SHARED "${SHARED#* }" STRIDE_DOUBLE "IMPORTED_SONAME \"${SHARED_SO#* }\" INTERFACE_LINK_LIBRARIES m"
    describe_to_cmake stride-static STATIC libstride.a "" "$needed"
    describe_to_cmake double-static STATIC libstride-double.a STRIDE_DOUBLE "$needed"
    printf '\nunset(stride_prefix)\n'
}

cmake_version() {
    cat <<END
# Programs go on working within a major version, and within a minor one while that is 0.
set(PACKAGE_VERSION $VERSION)
set(PACKAGE_VERSION_COMPATIBLE FALSE)
if(PACKAGE_FIND_VERSION MATCHES "^$(echo "$SOVERSION" | sed 's|\.|[.]|')([.]|\$)" AND
   NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
END
}

# ---- files ------------------------------------------------------------------------------------------------

install_file() { # MODE SOURCE DESTINATION
    mkdir -p "$DESTDIR${3%/*}"
    install -m "$1" "$2" "$DESTDIR$3"
}
install_link() { # TARGET DESTINATION
    ln -sf "$1" "$DESTDIR$2"
}
uninstall_file() { rm -f "$DESTDIR$3"; }
uninstall_link() { rm -f "$DESTDIR$2"; }

# Everything that is installed, once: $action is what becomes of it.
library() { # NAME ARCHIVE FILE SONAME DEVELOPER'S-NAME
    "${action}_file" 644 "$2" "$LIBDIR/lib$1.a"
    "${action}_file" 644 "${2%/*}/$3" "$LIBDIR/$3"
    "${action}_link" "$3" "$LIBDIR/$4"
    "${action}_link" "$4" "$LIBDIR/$5"
    for name in "$1" "$1-shared"; do "${action}_file" 644 "$scratch/$name.pc" "$LIBDIR/pkgconfig/$name.pc"; done
}
everything() {
    for header in $HEADERS; do "${action}_file" 644 "$header" "$INCLUDEDIR/$header"; done
    library stride "${STATIC% *}" "${SHARED% *}" "${SHARED_SO% *}" "${SHARED_DEV% *}"
    library stride-double "${STATIC#* }" "${SHARED#* }" "${SHARED_SO#* }" "${SHARED_DEV#* }"
    for file in stride-config.cmake stride-config-version.cmake; do
        "${action}_file" 644 "$scratch/$file" "$CMAKEDIR/$file"
    done
    for page in docs/man/*.[1-9]; do
        "${action}_file" 644 "$page" "$MANDIR/man${page##*.}/${page##*/}"
    done
    [ "$action" = install ] && [ -z "$MPI" ] || part mpi "$MPI_HEADERS"
    [ "$action" = install ] && [ -z "$PICTURES" ] || part pictures "$PICTURES_HEADERS"
    [ -z "$PROGRAM" ] || program
}

# The names of stride-mpi and stride-pictures follow from those of the library that they are for.
part() { # WHAT HEADERS
    for header in $2; do "${action}_file" 644 "$header" "$INCLUDEDIR/$header"; done
    for name in stride stride-double; do
        case $name in
        stride) archive=${STATIC% *} names="${SHARED% *} ${SHARED_SO% *} ${SHARED_DEV% *}" new=stride-$1 ;;
        *) archive=${STATIC#* } names="${SHARED#* } ${SHARED_SO#* } ${SHARED_DEV#* }" new=stride-$1-double ;;
        esac
        # shellcheck disable=SC2046
        library "$new" "${archive%/*}/lib$new.a" $(echo "$names" | sed "s|lib$name\\.|lib$new.|g")
    done
}

# With what it says of itself; one that was built for another machine needs RUN for that.
program() {
    "${action}_file" 755 "$PROGRAM" "$BINDIR/stride"
    [ -z "$PROGRAM_DOUBLE" ] || "${action}_file" 755 "$PROGRAM_DOUBLE" "$BINDIR/stride-double"
    # shellcheck disable=SC2086
    if [ "$action" = install ] && ! $RUN "$PROGRAM" help >/dev/null 2>&1; then
        echo "install: $PROGRAM does not run here (RUN=... says how): without its page of the manual and its completions" >&2
        return
    fi
    told 'help man' "$MANDIR/man1/stride.1"
    if [ -n "$PROGRAM_DOUBLE" ]; then
        echo '.so man1/stride.1' >"$scratch/double"
        "${action}_file" 644 "$scratch/double" "$MANDIR/man1/stride-double.1"
    fi
    told 'completion bash' "$DATADIR/bash-completion/completions/stride"
    told 'completion zsh' "$DATADIR/zsh/site-functions/_stride"
    told 'completion fish' "$DATADIR/fish/vendor_completions.d/stride.fish"
}
told() { # ARGUMENTS DESTINATION
    # shellcheck disable=SC2086
    [ "$action" = uninstall ] || $RUN "$PROGRAM" $1 >"$scratch/told"
    "${action}_file" 644 "$scratch/told" "$2"
}

if [ "$action" = install ]; then
    network="minimal neural-network framework"
    describe stride "$network, float precision" '' '' "$REQUIRES_PRIVATE" "$LIBS_PRIVATE"
    describe stride-double "$network, double precision" -DSTRIDE_DOUBLE '' "$REQUIRES_PRIVATE" "$LIBS_PRIVATE"
    describe stride-mpi "ranks of MPI for stride" '' stride '' "$MPI_LIBS"
    describe stride-mpi-double "ranks of MPI for stride-double" '' stride-double '' "$MPI_LIBS"
    describe stride-pictures "folders of pictures for stride" '' stride '' "$PICTURE_LIBS"
    describe stride-pictures-double "folders of pictures for stride-double" '' stride-double '' "$PICTURE_LIBS"
    cmake_config >"$scratch/stride-config.cmake"
    cmake_version >"$scratch/stride-config-version.cmake"
fi
everything

# Folders that are Stride's alone, if they are empty; and the loader is told.
if [ "$action" = uninstall ]; then
    find "$DESTDIR$INCLUDEDIR" -depth -type d -exec rmdir {} \; 2>/dev/null || :
    rmdir "$DESTDIR$CMAKEDIR" 2>/dev/null || :
fi
if [ -z "$DESTDIR" ] && [ -z "$rpath" ] && [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
