#!/bin/sh
# names.sh HEADER...: writes tensor/names.h, the names that what public headers declare has in libstride-double.
cat <<'END'
/* names.h: what public headers declare is called st_double_... in libstride-double, so that one program may
 * be linked with both libraries. make writes this file. */
#ifndef STRIDE_TENSOR_NAMES_H
#define STRIDE_TENSOR_NAMES_H

#ifdef STRIDE_DOUBLE

/* Every public function and object. */
END
awk -f tests/tools/symbols.awk "$@" | awk '($2 == "function" || $2 == "object") && $3 ~ /^st_/ { print $3 }' | LC_ALL=C sort -u |
    sed 's/^st_\(.*\)/#define & st_double_\1/'
printf '\n#endif\n\n#endif\n'
