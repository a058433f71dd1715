# What every target of superpipe is built with. No global flags: link superpipe::options.

set(SUPERPIPE_SANITIZER "" CACHE STRING "Sanitizers, as -fsanitize= takes them (e.g. address,undefined)")
option(SUPERPIPE_WARNINGS_AS_ERRORS "Treat warnings as errors" ON)

option(SUPERPIPE_PORTABLE "Link the C++ runtime into every binary, for machines without it" OFF)

add_library(superpipe_options INTERFACE)
add_library(superpipe::options ALIAS superpipe_options)
target_compile_features(superpipe_options INTERFACE cxx_std_20)
target_compile_options(superpipe_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -fvisibility=hidden -fvisibility-inlines-hidden -fno-omit-frame-pointer
  $<$<BOOL:${SUPERPIPE_WARNINGS_AS_ERRORS}>:-Werror>)
target_include_directories(superpipe_options INTERFACE ${PROJECT_SOURCE_DIR})
# What leaves this machine does not name its folders, as __FILE__ would.
target_compile_options(superpipe_options INTERFACE $<$<CONFIG:Release>:-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=>)
if(SUPERPIPE_SANITIZER)
  target_compile_options(superpipe_options INTERFACE -fsanitize=${SUPERPIPE_SANITIZER}
                                                     -fno-sanitize-recover=undefined)
  # Checks of each dereference make a fifth of what the compiler does: a null pointer ends the process without them, and the
  # address sanitizer knows an object's size better. A test's sources do without those of alignment, too; the sources under
  # test have them, and what their headers define as far as it was inlined there.
  target_compile_options(superpipe_options INTERFACE -fno-sanitize=null,object-size,vptr
    $<$<BOOL:$<TARGET_PROPERTY:SUPERPIPE_IS_TEST>>:-fno-sanitize=alignment>)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # The driver's functions are found by name, and called by types of our own for what their headers leave open.
    target_compile_options(superpipe_options INTERFACE -fno-sanitize=function)
  endif()
  target_link_options(superpipe_options INTERFACE -fsanitize=${SUPERPIPE_SANITIZER})
  # Compilers tell a source in different ways that it is sanitized: SUPERPIPE_SANITIZES_ADDRESS and so on.
  string(REPLACE "," ";" sanitizers ${SUPERPIPE_SANITIZER})
  foreach(sanitizer IN LISTS sanitizers)
    string(TOUPPER ${sanitizer} sanitizer)
    target_compile_definitions(superpipe_options INTERFACE SUPERPIPE_SANITIZES_${sanitizer})
  endforeach()
endif()
if(SUPERPIPE_PORTABLE)
  target_link_options(superpipe_options INTERFACE -static-libstdc++ -static-libgcc)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 finds overlaps in std::string's operator+ that are not there (its bug 105651).
  target_compile_options(superpipe_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Checks residency/thread_annotations.h: who may touch what without the manager's mutex. Tests look at the parts of a
  # manager while nothing else runs, and lock nothing.
  target_compile_options(superpipe_options INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:SUPERPIPE_IS_TEST>>>:-Wthread-safety>)
endif()
if(SUPERPIPE_SANITIZER STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC warns that it does not instrument std::atomic_thread_fence; what uses one is checked otherwise.
  target_compile_options(superpipe_options INTERFACE -Wno-tsan)
endif()
if(SUPERPIPE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "SUPERPIPE_FUZZ needs clang: use the preset 'fuzz'")
  endif()
  # Coverage everywhere; only the fuzz targets themselves bring libFuzzer's main().
  target_compile_options(superpipe_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(superpipe_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# What compresses and checks traces. The archive, because a preloaded library brings nothing into a program that the program may have in
# another version.
find_path(SUPERPIPE_ZSTD_INCLUDE zstd.h REQUIRED)
find_path(SUPERPIPE_XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(SUPERPIPE_ZSTD_ARCHIVE libzstd.a REQUIRED)
mark_as_advanced(SUPERPIPE_ZSTD_INCLUDE SUPERPIPE_XXHASH_INCLUDE SUPERPIPE_ZSTD_ARCHIVE)
add_library(superpipe_zstd INTERFACE)
add_library(superpipe::zstd ALIAS superpipe_zstd)
target_include_directories(superpipe_zstd SYSTEM INTERFACE ${SUPERPIPE_ZSTD_INCLUDE} ${SUPERPIPE_XXHASH_INCLUDE})
target_link_libraries(superpipe_zstd INTERFACE ${SUPERPIPE_ZSTD_ARCHIVE})

# superpipe_compile_quickly(TARGET): for what reads words and writes text, where the compiler's time matters more than the program's.
function(superpipe_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# superpipe_hide_runtime(TARGET): for libraries that are loaded into programs and export what their sources say: nothing of the
# C++ runtime that is linked into them.
function(superpipe_hide_runtime target)
  set(script ${PROJECT_SOURCE_DIR}/cmake/hidden_runtime.map)
  target_link_options(${target} PRIVATE -Wl,--version-script=${script})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()
