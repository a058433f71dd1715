# What `cmake --install` gives: the command, the preload library, simgpu, the examples, and a CMake package.

include(CMakePackageConfigHelpers)

install(TARGETS superpipe_cli EXPORT superpipeTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET superpipe)
  install(TARGETS superpipe EXPORT superpipeTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()

# Its kernels for simgpu, beside it: that is how simgpu finds them.
install(TARGETS superpipe_simgpu LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# What NVTX loads, beside it as well.
install(TARGETS superpipe_nvtx LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# simgpu's files are looked for by their SONAME, so the whole chain of names comes along.
set(_simgpu simgpu_driver simgpu_cudart simgpu_cudart12 simgpu_cublas simgpu_cublas12 simgpu_cublaslt simgpu_cublaslt12
    simgpu_cudnn simgpu_cufft simgpu_cufft11 simgpu_cusolver simgpu_cusolver11 simgpu_cusparse
    simgpu_cupti simgpu_cupti12 simgpu_nccl simgpu_nvml simgpu_loader simgpu_devices)
foreach(target IN LISTS _simgpu)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/superpipe/simgpu
            NAMELINK_SKIP)
  endif()
endforeach()

# An example and its simgpu kernels lie side by side: that is how `superpipe run --simulate` finds them.
foreach(example superpipe_minilm superpipe_layers)
  if(TARGET ${example})
    install(TARGETS ${example} ${example}_simgpu RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
            LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()

# The doctor's kernels for simgpu, beside the command.
install(TARGETS superpipe_cli_simgpu LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR})

# Manual pages and completion for shells, made from the command line's words (tools/superpipe/print_manuals.cc).
install(DIRECTORY ${CMAKE_BINARY_DIR}/share/man/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
foreach(folder bash-completion/completions zsh/site-functions fish/vendor_completions.d)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
endforeach()

# All that is installed, without tests and benchmarks.
add_custom_target(superpipe_parts)
foreach(target superpipe_cli superpipe_cli_simgpu superpipe_manual superpipe superpipe_nvtx superpipe_simgpu superpipe_minilm
        superpipe_layers ${_simgpu})
  if(TARGET ${target})
    add_dependencies(superpipe_parts ${target})
  endif()
endforeach()

set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/superpipe)
install(EXPORT superpipeTargets NAMESPACE superpipe:: DESTINATION ${_package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/superpipeConfig.cmake.in
  ${CMAKE_BINARY_DIR}/cmake/superpipeConfig.cmake INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/superpipeConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/superpipeConfig.cmake
              ${CMAKE_BINARY_DIR}/cmake/superpipeConfigVersion.cmake
        DESTINATION ${_package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
unset(_package_dir)
