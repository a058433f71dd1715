// Clang's thread-safety annotations; other compilers see nothing of them.
// Source: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html, whose names these are.
#pragma once

#if defined(__clang__)
#define SUPERPIPE_ANNOTATION(x) __attribute__((x))
#else
#define SUPERPIPE_ANNOTATION(x)
#endif

#define CAPABILITY(name) SUPERPIPE_ANNOTATION(capability(name))
#define SCOPED_CAPABILITY SUPERPIPE_ANNOTATION(scoped_lockable)
#define GUARDED_BY(...) SUPERPIPE_ANNOTATION(guarded_by(__VA_ARGS__))
#define REQUIRES(...) SUPERPIPE_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) SUPERPIPE_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) SUPERPIPE_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RELEASE(...) SUPERPIPE_ANNOTATION(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS SUPERPIPE_ANNOTATION(no_thread_safety_analysis)
