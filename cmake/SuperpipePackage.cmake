# What goes to other machines beside an installation, in a portable build: what it needs there (also in a wheel), and the checks that
# scripts/package packs.
#
#   bin, lib                as cmake --install gives them
#   lib/superpipe/cuda      NVIDIA's runtime library, for the examples on a real GPU (redistributable: CUDA EULA, Attachment A)
#   lib/superpipe/unwind    libunwind, for the call sites of traces
#   libexec/superpipe       conformance suite, test programs, benchmarks
#   scripts                 gpu_check.sh and what it calls

set(SUPERPIPE_CHECKS conformance conformance_simgpu launch_hook_bench
  managed_program interposer_kernels_plugin random_device_program device_probe gpu_test_simgpu)
add_custom_target(superpipe_checks)
set(_checks_dir libexec/superpipe)
foreach(target ${SUPERPIPE_CHECKS})
  if(NOT TARGET ${target})
    continue()
  endif()
  add_dependencies(superpipe_checks ${target})
  if(SUPERPIPE_PORTABLE)
    install(TARGETS ${target} RUNTIME DESTINATION ${_checks_dir} COMPONENT checks
                              LIBRARY DESTINATION ${_checks_dir} COMPONENT checks)
  endif()
endforeach()
if(NOT SUPERPIPE_PORTABLE)
  return()
endif()
if(NOT SUPERPIPE_LICENCES)
  message(FATAL_ERROR "what goes to other machines is compiled by zig: use the preset 'portable'")
endif()

# DT_RUNPATH, not DT_RPATH: simgpu's runtime library, which comes by LD_LIBRARY_PATH, has to win.
foreach(target superpipe_minilm superpipe_layers)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/superpipe/cuda")
    target_link_options(${target} PRIVATE -Wl,--enable-new-dtags)
  endif()
endforeach()
file(REAL_PATH ${CUDA_cudart_LIBRARY} _cudart)
install(FILES ${_cudart} DESTINATION ${CMAKE_INSTALL_LIBDIR}/superpipe/cuda RENAME libcudart.so.13)

# The library looks there where the machine has none (interposer/recording/call_sites.cc). That of scripts/setup_portable needs glibc alone.
find_library(SUPERPIPE_PACKED_unwind NAMES libunwind.so.8 REQUIRED)
mark_as_advanced(SUPERPIPE_PACKED_unwind)
file(REAL_PATH ${SUPERPIPE_PACKED_unwind} _file)
install(FILES ${_file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/superpipe/unwind RENAME libunwind.so.8)

# The licences of all that is compiled in or comes along: setup_portable collected them, but those of NVIDIA's toolkit.
set(_licences ${CMAKE_INSTALL_DOCDIR}/licenses)
install(DIRECTORY ${SUPERPIPE_LICENCES}/ DESTINATION ${_licences})
install(DIRECTORY ${SUPERPIPE_CHECK_LICENCES}/ DESTINATION ${_licences} COMPONENT checks)
install(FILES ${PROJECT_SOURCE_DIR}/third_party/uplot/LICENSE DESTINATION ${_licences} RENAME uplot)
file(GLOB _cuda_licence ${CUDAToolkit_BIN_DIR}/../EULA.txt
  ${CUDAToolkit_BIN_DIR}/../dist-info/nvidia_cuda_runtime-*/licenses/License.txt
  ${CUDAToolkit_BIN_DIR}/../licenses/nvidia_cuda_runtime-*/licenses/License.txt)
if(_cuda_licence)
  list(GET _cuda_licence 0 _cuda_licence)
  install(FILES ${_cuda_licence} DESTINATION ${_licences} RENAME cuda_runtime)
else()
  install(CODE [[message(FATAL_ERROR
    "the CUDA toolkit's licence (EULA.txt) is not in it, and has to go with its runtime library")]])
endif()

# The kernels that managed_program loads.
if(TARGET interposer_kernels)
  add_dependencies(superpipe_checks interposer_kernels)
  install(FILES ${CMAKE_BINARY_DIR}/tests/interposer/kernels.fatbin DESTINATION ${_checks_dir} COMPONENT checks)
endif()

install(PROGRAMS ${PROJECT_SOURCE_DIR}/scripts/demo_runs.py ${PROJECT_SOURCE_DIR}/scripts/residency_svg.py
                 ${PROJECT_SOURCE_DIR}/bench/pass_time.py ${PROJECT_SOURCE_DIR}/scripts/gpu_check.sh
        DESTINATION scripts COMPONENT checks)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/gpu_check ${PROJECT_SOURCE_DIR}/scripts/frameworks
        DESTINATION scripts COMPONENT checks FILES_MATCHING PATTERN *.py PATTERN __pycache__ EXCLUDE)
