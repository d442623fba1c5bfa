/* locale.h: the C locale, so that numbers in files have a decimal point in every locale. */
#ifndef STRIDE_NN_FILES_LOCALE_H
#define STRIDE_NN_FILES_LOCALE_H

/* Sets this thread's locale to C; leave restores the one that enter returned. */
void *c_locale_enter(void);
void c_locale_leave(void *before);

#endif
