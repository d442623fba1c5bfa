#!/bin/sh
# c_check.sh STRIDE MODEL FOLDER: the trained net as C: its size and its speed here beside `stride bench-model`, and on
# an emulated Cortex-M4 with its sizes in flash and RAM.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
stride=$1 model=$2 folder=$3
CC=${CC:-cc}
mkdir -p "$folder"
"$stride" export --model "$model" "$folder/model.c"
library=$("$stride" bench-model --model "$model" --batches 1 --threads 1 | awk '$1 == 1 && NF == 3 { printf "%.1f", 1e6 / $3 }')
cd "$folder"
sed -n '3,/^ \*$/p' model.c

# Twenty images of noise: numbers of 0 to 1, as a grey image has them.
inputs=$(awk '$2 == "MODEL_INPUTS" { print $3 }' model.c)
LC_ALL=C awk -v n="$inputs" 'BEGIN { srand(1); for (i = 0; i < 20 * n; i++) printf "%c%c%c%c", 0, 0, rand() < 0.8 ? 0 : 128, rand() < 0.5 ? 0 : 63 }' >images

# shellcheck disable=SC2086
for flags in -O2 '-O3 -march=native'; do
    $CC -D_POSIX_C_SOURCE=199309L -std=c99 $flags "$here/board/host.c" model.c -I. -o host -lm
    printf '%s, CPU time: ' "$flags"
    ./host 3000
done
echo "stride bench-model, one image and one thread: $library microseconds an image"

command -v arm-none-eabi-gcc >/dev/null || { echo 'skip Cortex-M4: there is no arm-none-eabi-gcc (make deps-c)'; exit 0; }
command -v qemu-system-arm >/dev/null || { echo 'skip Cortex-M4: there is no qemu-system-arm (make deps-c)'; exit 0; }
arm='arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -Os -ffunction-sections -fdata-sections'
# shellcheck disable=SC2086
$arm -std=c99 -Wall -Wextra -pedantic -Werror -c model.c -o model.o
# shellcheck disable=SC2086
$arm "$here/board/cortex.c" model.o -I. -T "$here/board/cortex.ld" -nostartfiles --specs=rdimon.specs -Wl,--gc-sections -o cortex.elf -lm
rm -f outputs
timeout 300 qemu-system-arm -M mps2-an386 -nographic -semihosting-config enable=on,target=native -kernel cortex.elf </dev/null
arm-none-eabi-size model.o | awk -v workspace="$(awk '$2 == "MODEL_WORKSPACE" { print 4 * $3 }' model.c)" \
    'NR == 2 { printf "Cortex-M4: model.o takes %d bytes of flash; %d bytes of RAM, and %d of workspace\n", $1, $2 + $3, workspace }'
od -An -v -tf4 -w4 expected >expected.txt
od -An -v -tf4 -w4 outputs | paste - expected.txt | awk '
    { most = $2 > most ? $2 : -$2 > most ? -$2 : most; off = $1 > $2 ? $1 - $2 : $2 - $1; if (off > worst) worst = off }
    END {
        if (most == 0 || !(worst <= 1e-6 * most)) { printf "not ok Cortex-M4: %d numbers, %g apart\n", NR, worst; exit 1 }
        printf "ok Cortex-M4: %d outputs of 20 images, at most %.2g of the greatest apart from those here\n", NR, worst / most
    }'
