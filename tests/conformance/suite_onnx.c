/* suite_onnx: the cases of ONNX's operators that the library has, from Debian's libonnx-testdata.
 *
 *     suite_onnx [FOLDER]
 *
 * Each is computed by our layers, losses, optimizers and tensor functions, and compared as ONNX compares. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#ifdef STRIDE_ONNX
#include "tests/conformance/onnx/onnx.h"

int main(int count, char **argument)
{
    const char *folder = count > 1 ? argument[1] : "/usr/share/libonnx-testdata/data";
    const char *fast = getenv("STRIDE_FAST");
    struct stat status;
    if (stat(folder, &status) != 0) {
        printf("skip onnx: there is no %s (make deps-conformance)\n", folder);
        return 0;
    }
    return onnx_cases(folder, fast && *fast) > 0;
}
#else
int main(void)
{
    puts("skip onnx: protobuf-c and onnx.proto were not there to build with (make deps-conformance)");
    return 0;
}
#endif
