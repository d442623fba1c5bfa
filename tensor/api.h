/* api.h: how public headers declare functions and pass lists of arguments, in C and in C++. */
#ifndef STRIDE_TENSOR_API_H
#define STRIDE_TENSOR_API_H

#include "tensor/names.h"

/* Declarations between these two have C linkage and are exported by the shared library. In C++ types of
 * double are others than those of float, and so are functions and templates over them: one program may have
 * both. */
#ifdef __cplusplus
#ifdef __GNUC__
#pragma GCC system_header /* -Wextra would warn of each option that a call of a macro below leaves out */
#endif
#include <initializer_list>
#ifdef STRIDE_DOUBLE
#define ST_TYPES_BEGIN inline namespace st_double {
#define ST_TYPES_END }
#else
#define ST_TYPES_BEGIN
#define ST_TYPES_END
#endif
#define ST_API_BEGIN                                                                                         \
    ST_TYPES_BEGIN                                                                                           \
    extern "C" {                                                                                             \
    ST_VISIBLE_BEGIN
#define ST_API_END                                                                                           \
    ST_VISIBLE_END                                                                                           \
    }                                                                                                        \
    ST_TYPES_END
#else
#define ST_API_BEGIN ST_VISIBLE_BEGIN
#define ST_API_END ST_VISIBLE_END
#endif
#ifdef __GNUC__
#define ST_VISIBLE_BEGIN _Pragma("GCC visibility push(default)")
#define ST_VISIBLE_END _Pragma("GCC visibility pop")
#else
#define ST_VISIBLE_BEGIN
#define ST_VISIBLE_END
#endif

/* The macros over constructors are made of these. ST_OPTIONS(type, .a = 1) is a struct whose other members
 * are 0: C++ has designated initializers since C++20. ST_COUNT is the number of the arguments, an int;
 * ST_LIST an array of them that lives as long as the call it is an argument of. */
#ifdef __cplusplus
template <typename... T> char (&st_arguments(T...))[sizeof...(T)];
#define ST_OPTIONS(type, ...) (type{ __VA_ARGS__ })
#define ST_COUNT(type, ...) (int(sizeof(st_arguments(__VA_ARGS__))))
#define ST_LIST(type, ...) (std::initializer_list<type>{ __VA_ARGS__ }.begin())
#else
#ifdef __GNUC__
#define ST_OPTIONS(type, ...) (__extension__(type){ __VA_ARGS__ })
#else
#define ST_OPTIONS(type, ...) ((type){ __VA_ARGS__ })
#endif
#define ST_COUNT(type, ...) ((int)(sizeof((type[]){ __VA_ARGS__ }) / sizeof(type)))
#define ST_LIST(type, ...) ((type const[]){ __VA_ARGS__ })
#endif

/* Declares that argument `format` is a format as printf's, for the arguments from `first` on. */
#if defined(__MINGW32__)
#define ST_PRINTF(format, first) __attribute__((__format__(gnu_printf, format, first)))
#elif defined(__GNUC__)
#define ST_PRINTF(format, first) __attribute__((__format__(printf, format, first)))
#else
#define ST_PRINTF(format, first)
#endif

/* function(first, ST_OPTIONS(type, ...)), for macros whose options may all be left out: f(x), f(x, .a = 1).
 * ISO C wants an argument for each "...", so the list of options ends with a comma. */
#define ST_CALL(function, type, ...) ST_CALL_LIST(function, type, __VA_ARGS__, )
#define ST_CALL_LIST(function, type, first, ...) function(first, ST_OPTIONS(type, __VA_ARGS__))

#endif
