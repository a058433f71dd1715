# What `cmake --install` gives: the command, the preload library, simgpu, the examples, and a CMake package.

include(CMakePackageConfigHelpers)

install(TARGETS superpipe_cli EXPORT superpipeTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# Never in lib itself: below /usr/local, the next ldconfig would make a library with the SONAME
# libcuda.so.1 the driver of every program. ldconfig does not look into folders of folders.
set(_library_dir ${CMAKE_INSTALL_LIBDIR}/superpipe)
# Version 0.1.0 was installed into lib before it was released: what is there goes, and the link that
# ldconfig made of it.
install(CODE "set(old_found OFF)
set(old_dir \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}\")
if(IS_SYMLINK \"\${old_dir}/libcuda.so.1\")
  file(READ_SYMLINK \"\${old_dir}/libcuda.so.1\" old_target)
  if(old_target STREQUAL \"libsuperpipe.so\")
    file(REMOVE \"\${old_dir}/libcuda.so.1\")
    set(old_found ON)
  endif()
endif()
foreach(old_name libsuperpipe.so libsuperpipe.simgpu.so libsuperpipe.nvtx.so)
  if(EXISTS \"\${old_dir}/\${old_name}\" OR IS_SYMLINK \"\${old_dir}/\${old_name}\")
    file(REMOVE \"\${old_dir}/\${old_name}\")
    set(old_found ON)
  endif()
endforeach()
if(old_found)
  message(STATUS \"Removed an earlier superpipe from \${old_dir}: run ldconfig; preload lib/superpipe/libsuperpipe.so\")
endif()")
if(TARGET superpipe)
  install(TARGETS superpipe EXPORT superpipeTargets LIBRARY DESTINATION ${_library_dir})
endif()

# Its kernels for simgpu, beside it: that is how simgpu finds them.
install(TARGETS superpipe_simgpu LIBRARY DESTINATION ${_library_dir})

# What NVTX loads, beside it as well.
install(TARGETS superpipe_nvtx LIBRARY DESTINATION ${_library_dir})

# simgpu's files are looked for by their SONAME, so the whole chain of names comes along.
set(_simgpu simgpu_driver simgpu_cudart simgpu_cudart12 simgpu_cublas simgpu_cublas12 simgpu_cublaslt simgpu_cublaslt12
    simgpu_cudnn simgpu_cufft simgpu_cufft11 simgpu_cusolver simgpu_cusolver11 simgpu_cusparse
    simgpu_cupti simgpu_cupti12 simgpu_nccl simgpu_nvml simgpu_loader simgpu_devices)
foreach(target IN LISTS _simgpu)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION ${_library_dir}/simgpu
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
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/${folder}/ DESTINATION ${SUPERPIPE_COMPLETION_DIR}/${folder})
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
install(EXPORT superpipeTargets NAMESPACE superpipe:: DESTINATION ${_package_dir} COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/superpipeConfig.cmake.in
  ${CMAKE_BINARY_DIR}/cmake/superpipeConfig.cmake INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/superpipeConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/superpipeConfig.cmake
              ${CMAKE_BINARY_DIR}/cmake/superpipeConfigVersion.cmake
        DESTINATION ${_package_dir} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
unset(_package_dir)
unset(_library_dir)
