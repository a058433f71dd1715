# The benchmark of the launch hook over a driver that does nothing. Included by bench/CMakeLists.txt.
find_package(benchmark REQUIRED)
add_executable(launch_hook_bench ${PROJECT_SOURCE_DIR}/bench/launch_hook_bench.cc
  ${PROJECT_SOURCE_DIR}/tests/interposer/null_driver.cc)
set_target_properties(launch_hook_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
target_link_libraries(launch_hook_bench PRIVATE superpipe::options superpipe_interposer benchmark::benchmark)
if(SUPERPIPE_PORTABLE)
  # zig's clang warns of each BENCHMARK, which counts by __COUNTER__.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/bench/launch_hook_bench.cc PROPERTIES
    COMPILE_OPTIONS -Wno-c2y-extensions)
endif()
