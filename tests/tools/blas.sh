#!/bin/sh
# blas.sh CC FLAGS...: names the BLAS that programs are linked with, in one line, by what it says it is.
program=$(mktemp)
trap 'rm -f "$program"' EXIT
CC=$1
shift
cat <<'END' | $CC -x c - "$@" -o "$program" 2>/dev/null && "$program" 2>/dev/null && exit
#include <stdio.h>
extern const char *openblas_get_config(void) __attribute__((weak));
extern const char *bli_info_get_version_str(void) __attribute__((weak));
extern void mkl_get_version_string(char *to, int size) __attribute__((weak));
extern double cblas_ddot(int n, const double *x, int dx, const double *y, int dy);
int main(void)
{
    char text[200] = "";
    double one = 1;
    if (cblas_ddot(1, &one, 1, &one, 1) != 1) return 1;
    if (openblas_get_config) printf("  BLAS  %s\n", openblas_get_config());
    else if (bli_info_get_version_str) printf("  BLAS  BLIS %s\n", bli_info_get_version_str());
    else if (mkl_get_version_string) mkl_get_version_string(text, sizeof text), printf("  BLAS  %.199s\n", text);
#ifdef __APPLE__
    else printf("  BLAS  Accelerate, or another of the system's\n");
#else
    else printf("  BLAS  not OpenBLAS, BLIS or MKL: st_gemm may be slow (make deps)\n");
#endif
    return 0;
}
END
echo "  BLAS  $*"
