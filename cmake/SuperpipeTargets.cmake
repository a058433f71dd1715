# What every target of superpipe is built with. No global flags: link superpipe::options.

set(SUPERPIPE_SANITIZER "" CACHE STRING "Sanitizers, as -fsanitize= takes them (e.g. address,undefined)")

add_library(superpipe_options INTERFACE)
add_library(superpipe::options ALIAS superpipe_options)
target_compile_features(superpipe_options INTERFACE cxx_std_20)
target_compile_options(superpipe_options INTERFACE
  -Wall -Wextra -Werror -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  -fvisibility=hidden -fvisibility-inlines-hidden -fno-omit-frame-pointer)
target_include_directories(superpipe_options INTERFACE ${PROJECT_SOURCE_DIR})
if(SUPERPIPE_SANITIZER)
  target_compile_options(superpipe_options INTERFACE -fsanitize=${SUPERPIPE_SANITIZER})
  target_link_options(superpipe_options INTERFACE -fsanitize=${SUPERPIPE_SANITIZER})
endif()

# superpipe_test(NAME SOURCES... [LIBRARIES...] [LABELS...]): one GoogleTest binary, one ctest entry a test.
function(superpipe_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE superpipe::options ${arg_LIBRARIES} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 120)
endfunction()
