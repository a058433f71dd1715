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
  # Not where another shared library needs the C++ runtime: there shall be one of it in a process.
  target_link_options(superpipe_options INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:SUPERPIPE_SHARED_RUNTIME>>>:-static-libstdc++$<SEMICOLON>-static-libgcc>)
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

# superpipe_timeout(OUT SECONDS): how long a test that takes at most a quarter of SECONDS by itself may take. A busy machine
# is given that much more time, and a sanitizer three times as much again.
function(superpipe_timeout out seconds)
  if(SUPERPIPE_SANITIZER)
    math(EXPR seconds "3 * ${seconds}")
  endif()
  set(${out} ${seconds} PARENT_SCOPE)
endfunction()

# superpipe_default_label(OUT): the part that the current folder tests, which is its first folder below tests/.
function(superpipe_default_label out)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" label ${folder})
  set(${out} ${label} PARENT_SCOPE)
endfunction()

# superpipe_test(NAME SOURCES... [LIBRARIES...] [LABEL label]): one GoogleTest binary, one ctest entry a test, labelled
# with the part that it tests unless another label is given.
function(superpipe_test name)
  cmake_parse_arguments(arg "" "LABEL" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_LABEL)
    superpipe_default_label(arg_LABEL)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE superpipe::options ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  # Tests spend their time in what they test. What GoogleTest's templates become takes most of a build's time.
  if(SUPERPIPE_SANITIZER)
    target_compile_options(${name} PRIVATE -O0)
    # Half of what is left goes into reading headers, which fewer and larger units read less often.
    set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 16)
  else()
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo,Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-g1>)
  endif()
  set_target_properties(${name} PROPERTIES SUPERPIPE_IS_TEST ON RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  superpipe_timeout(timeout 120)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${timeout})
endfunction()

# superpipe_python_test(NAME FILE [TIMEOUT seconds] [LABEL label] [ALONE]): one ctest entry for the unittest FILE of the
# current folder. It finds the build tree through SUPERPIPE_BUILD_DIR and the sources through SUPERPIPE_SOURCE_DIR.
# ALONE: no other test runs beside it.
function(superpipe_python_test name file)
  cmake_parse_arguments(arg "ALONE" "TIMEOUT;LABEL" "" ${ARGN})
  if(NOT arg_LABEL)
    superpipe_default_label(arg_LABEL)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  superpipe_timeout(arg_TIMEOUT ${arg_TIMEOUT})
  add_test(NAME ${name} COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/${file} --verbose)
  # These are the long ones: ctest starts the costliest first, so that nothing is left for one core at the end.
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT}
    RUN_SERIAL ${arg_ALONE}
    ENVIRONMENT "SUPERPIPE_BUILD_DIR=${CMAKE_BINARY_DIR};SUPERPIPE_SOURCE_DIR=${PROJECT_SOURCE_DIR};SUPERPIPE_SANITIZER=${SUPERPIPE_SANITIZER}")
endfunction()

# superpipe_fuzz(NAME SOURCES... [LIBRARIES...] [CORPUS folder]): a libFuzzer binary in fuzz/, under SUPERPIPE_FUZZ. With a corpus it is a test
# too, which begins there and runs for some seconds; in other builds the test runs inputs of the corpus and near them, without a fuzzer.
function(superpipe_fuzz name)
  cmake_parse_arguments(arg "" "CORPUS" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT SUPERPIPE_FUZZ AND NOT arg_CORPUS)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE superpipe::options ${arg_LIBRARIES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  if(SUPERPIPE_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    # What it finds goes to the first folder.
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz/${name}.found)
    set(options -max_total_time=10 -timeout=20 -rss_limit_mb=2048 -artifact_prefix=${CMAKE_BINARY_DIR}/fuzz/
      ${CMAKE_BINARY_DIR}/fuzz/${name}.found)
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.cc)
  endif()
  if(arg_CORPUS)
    superpipe_default_label(label)
    superpipe_timeout(timeout 120)
    add_test(NAME fuzz.${name} COMMAND ${name} ${options} ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
    set_tests_properties(fuzz.${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout})
  endif()
endfunction()
