# How tests are declared: as entries of ctest, each with folders of its own, and with the targets
# that it needs.
#
# Each entry begins with tests/in_own_folders.py, and build/PRESET/tests.json says what it needs,
# for scripts/test.

# The limit that ends a test which hangs, the same for all: long enough for the longest beside a
# busy machine.
set(SUPERPIPE_TEST_LIMIT 900)

# superpipe_default_label(OUT): the part that the current folder tests, which is its first folder
# below tests/.
function(superpipe_default_label out)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" label ${folder})
  set(${out} ${label} PARENT_SCOPE)
endfunction()

# superpipe_given(OUT options...): those of the options that the calling function was given, and its
# flags, to be passed on. For functions that parsed them into arg_.
macro(superpipe_given out)
  set(${out})
  foreach(option ${ARGN})
    if(arg_${option})
      list(APPEND ${out} ${option} ${arg_${option}})
    endif()
  endforeach()
  foreach(option EXTENDED ONCE_FLAKY)
    if(arg_${option})
      list(APPEND ${out} ${option})
    endif()
  endforeach()
endmacro()

# superpipe_add_test(NAME COMMAND words... [NEEDS targets...] [SOURCES files...]
#                    [ENVIRONMENT variables...] [LABEL labels...] [COST seconds] [EXTENDED]
#                    [ONCE_FLAKY]): an entry of ctest.
#
# COMMAND: a target or a program, and its arguments. NEEDS: the targets that are built before.
# SOURCES: where its tests are written, for scripts/test NAME. LABEL: the part that it tests, and
# more; default the current folder's. COST: roughly how many seconds it takes; ctest starts the
# longest ones first. EXTENDED: scripts/test runs it with --all only. ONCE_FLAKY: it has failed on a
# busy machine before, so that CI runs it beside other work.
function(superpipe_add_test name)
  cmake_parse_arguments(arg "EXTENDED;ONCE_FLAKY" "COST"
    "COMMAND;NEEDS;SOURCES;ENVIRONMENT;LABEL" ${ARGN})
  if(NOT arg_LABEL)
    superpipe_default_label(arg_LABEL)
  endif()
  if(NOT arg_COST)
    set(arg_COST 1)
  endif()
  list(POP_FRONT arg_COMMAND program)
  if(TARGET ${program})
    list(APPEND arg_NEEDS ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${name} COMMAND Python3::Interpreter -B
    ${PROJECT_SOURCE_DIR}/tests/in_own_folders.py ${program} ${arg_COMMAND})
  set(labels ${arg_LABEL})
  if(arg_EXTENDED)
    list(APPEND labels extended)
  endif()
  if(arg_ONCE_FLAKY)
    list(APPEND labels once-flaky)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${SUPERPIPE_TEST_LIMIT}
    COST ${arg_COST} ENVIRONMENT "${arg_ENVIRONMENT}")

  set(sources)
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${source}" is_generated)
    if(NOT is_generated)
      list(APPEND sources ${source})
    endif()
  endforeach()
  set_property(GLOBAL APPEND PROPERTY SUPERPIPE_TESTS ${name})
  set_property(GLOBAL PROPERTY SUPERPIPE_TEST_${name}_NEEDS ${arg_NEEDS})
  set_property(GLOBAL PROPERTY SUPERPIPE_TEST_${name}_SOURCES ${sources})
endfunction()

# superpipe_test(NAME SOURCES... [LIBRARIES...] [SHARDS N] [OWN_PROCESS suites...] options...): a
# GoogleTest binary, which runs as one process, or as N that divide its tests, and one more for each
# suite that needs a process of its own. The other options are superpipe_add_test's.
function(superpipe_test name)
  cmake_parse_arguments(arg "EXTENDED;ONCE_FLAKY" "COST;SHARDS"
    "SOURCES;LIBRARIES;NEEDS;ENVIRONMENT;LABEL;OWN_PROCESS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE superpipe::options ${arg_LIBRARIES}
    GTest::gmock GTest::gtest_main)
  # Tests spend their time in what they test. What GoogleTest's templates become takes most of a
  # build's time.
  target_compile_options(${name} PRIVATE -O0)
  set_target_properties(${name} PROPERTIES SUPERPIPE_IS_TEST ON
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  superpipe_add_gtest(${name} ${ARGN})
endfunction()

# superpipe_add_gtest(TARGET [NAME name] [ARGUMENTS words...] options...): the entries of a
# GoogleTest binary; the options are superpipe_test's.
function(superpipe_add_gtest target)
  cmake_parse_arguments(arg "EXTENDED;ONCE_FLAKY" "NAME;COST;SHARDS"
    "SOURCES;LIBRARIES;NEEDS;ENVIRONMENT;ARGUMENTS;LABEL;OWN_PROCESS" ${ARGN})
  if(NOT arg_NAME)
    set(arg_NAME ${target})
  endif()
  superpipe_given(common NEEDS SOURCES LABEL COST)
  set(command COMMAND ${target} ${arg_ARGUMENTS})
  foreach(suite IN LISTS arg_OWN_PROCESS)
    superpipe_add_test(${arg_NAME}.${suite} ${command} --gtest_filter=${suite}.* ${common}
      ENVIRONMENT ${arg_ENVIRONMENT})
  endforeach()
  if(arg_OWN_PROCESS)
    list(JOIN arg_OWN_PROCESS ".*:" others)
    list(APPEND command --gtest_filter=-${others}.*)
  endif()
  if(NOT arg_SHARDS)
    superpipe_add_test(${arg_NAME} ${command} ${common} ENVIRONMENT ${arg_ENVIRONMENT})
    return()
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    math(EXPR index "${shard} - 1")
    superpipe_add_test(${arg_NAME}.${shard} ${command} ${common}
      ENVIRONMENT ${arg_ENVIRONMENT} GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${index})
  endforeach()
endfunction()

# superpipe_python_test(NAME FILE options...): an entry for the unittest FILE of the current folder;
# the options are superpipe_add_test's. The test finds the build tree through SUPERPIPE_BUILD_DIR
# and the sources through SUPERPIPE_SOURCE_DIR. What all tests of a folder need stands in the
# variable SUPERPIPE_TEST_NEEDS.
function(superpipe_python_test name file)
  cmake_parse_arguments(arg "EXTENDED;ONCE_FLAKY" "COST" "NEEDS;ENVIRONMENT;LABEL" ${ARGN})
  superpipe_given(options LABEL COST)
  superpipe_add_test(${name} ${options}
    COMMAND $<TARGET_FILE:Python3::Interpreter> -B ${CMAKE_CURRENT_SOURCE_DIR}/${file} --verbose
    NEEDS ${SUPERPIPE_TEST_NEEDS} ${arg_NEEDS} SOURCES ${file}
    ENVIRONMENT SUPERPIPE_BUILD_DIR=${CMAKE_BINARY_DIR} SUPERPIPE_SOURCE_DIR=${PROJECT_SOURCE_DIR}
                SUPERPIPE_SANITIZER=${SUPERPIPE_SANITIZER} ${arg_ENVIRONMENT})
endfunction()

# superpipe_fuzz(NAME SOURCES... [LIBRARIES...] [CORPUS folder]): a libFuzzer binary in fuzz/, under
# SUPERPIPE_FUZZ. With a corpus it is a test too, which begins there and runs for some seconds; in
# other builds the test runs inputs of the corpus and near them, without a fuzzer.
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
    set(options -max_total_time=10 -timeout=20 -rss_limit_mb=2048
      -artifact_prefix=${CMAKE_BINARY_DIR}/fuzz/
      ${CMAKE_BINARY_DIR}/fuzz/${name}.found)
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.cc)
  endif()
  if(arg_CORPUS)
    superpipe_default_label(label)
    superpipe_add_test(fuzz.${name} EXTENDED SOURCES ${arg_SOURCES} LABEL ${label} fuzz
      COMMAND ${name} ${options} ${CMAKE_CURRENT_SOURCE_DIR}/${arg_CORPUS})
  endif()
endfunction()

# superpipe_finish_tests(): writes tests.json, once all entries are declared.
function(superpipe_finish_tests)
  get_property(names GLOBAL PROPERTY SUPERPIPE_TESTS)
  set(entries)
  foreach(name IN LISTS names)
    get_property(needs GLOBAL PROPERTY SUPERPIPE_TEST_${name}_NEEDS)
    set(targets)
    foreach(need IN LISTS needs)
      # What a test needs may not be built on this machine: then the test says so.
      if(TARGET ${need})
        list(APPEND targets \"${need}\")
      else()
        message(STATUS "${name} needs ${need}, which is not built here")
      endif()
    endforeach()
    get_property(sources GLOBAL PROPERTY SUPERPIPE_TEST_${name}_SOURCES)
    list(TRANSFORM sources REPLACE "(.+)" "\"\\1\"")
    list(JOIN targets ", " targets)
    list(JOIN sources ", " sources)
    list(APPEND entries "\"${name}\": {\"needs\": [${targets}], \"sources\": [${sources}]}")
  endforeach()
  list(JOIN entries ",\n" entries)
  file(WRITE ${CMAKE_BINARY_DIR}/tests.json "{\n${entries}\n}\n")
endfunction()
