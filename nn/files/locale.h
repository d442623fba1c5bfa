/* locale.h: numbers in files are written and read with a decimal point, whatever the program's locale. */
#ifndef STRIDE_NN_FILES_LOCALE_H
#define STRIDE_NN_FILES_LOCALE_H

/* From here on this thread's locale is C; leave restores the one that enter returned. */
void *c_locale_enter(void);
void c_locale_leave(void *before);

#endif
