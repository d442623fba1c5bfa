/* api.h: how public headers declare functions and pass lists of arguments, in C and in C++. */
#ifndef STRIDE_TENSOR_API_H
#define STRIDE_TENSOR_API_H

#if __SIZEOF_POINTER__ < 8 && !defined __wasm__
#error "Stride is 64-bit only"
#elif __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Stride is for little-endian processors only"
#endif

/* Declarations between these two have C linkage and are exported by the shared library. */
#ifdef __cplusplus
#include <initializer_list>
#define ST_API_BEGIN                                                                                         \
    extern "C" {                                                                                             \
    _Pragma("GCC visibility push(default)")
#define ST_API_END                                                                                           \
    _Pragma("GCC visibility pop")                                                                            \
    }
#else
#define ST_API_BEGIN _Pragma("GCC visibility push(default)")
#define ST_API_END _Pragma("GCC visibility pop")
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
#define ST_OPTIONS(type, ...) (__extension__(type){ __VA_ARGS__ })
#define ST_COUNT(type, ...) ((int)(sizeof((type[]){ __VA_ARGS__ }) / sizeof(type)))
#define ST_LIST(type, ...) ((type const[]){ __VA_ARGS__ })
#endif

#endif
