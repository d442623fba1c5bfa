/* cortex.c: runs model_predict on a Cortex-M4 without an operating system: what it takes to get there, and a
 * main that reads images and writes outputs by semihosting. */
#define MODEL_DECLARE
#include "model.c"

#include <stdint.h>
#include <stdio.h>

extern uint32_t data_load, data_begin, data_end, bss_begin, bss_end, stack_top;
void initialise_monitor_handles(void);
void reset(void);
int main(void);

__attribute__((section(".vectors"), used)) static const void *const vectors[] = { &stack_top,
                                                                                  (const void *)reset };

void exit(int status) __attribute__((noreturn));

void reset(void)
{
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* the floating-point unit is on */
    __asm volatile("dsb\n isb");
    for (uint32_t *from = &data_load, *to = &data_begin; to < &data_end;) *to++ = *from++;
    for (uint32_t *to = &bss_begin; to < &bss_end;) *to++ = 0;
    initialise_monitor_handles();
    exit(main());
}

static float input[MODEL_INPUTS], output[MODEL_OUTPUTS], workspace[MODEL_WORKSPACE];

int main(void)
{
    FILE *from = fopen("images", "rb"), *to = fopen("outputs", "wb");
    if (!from || !to) return 1;
    while (fread(input, sizeof input, 1, from) == 1) {
        model_predict_in(input, output, workspace);
        if (fwrite(output, sizeof output, 1, to) != 1) return 1;
    }
    return fclose(to) != 0;
}
