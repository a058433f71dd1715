# How kernels of ours get into programs: as machine code for every kind of device, and as text for those to come.

# What nvcc has its host code compiled by: not every compiler of the project is one that it takes.
if(NOT SUPERPIPE_NVCC_HOST_COMPILER)
  set(SUPERPIPE_NVCC_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()

# superpipe_embed_kernels(NAME SOURCE [DEPENDS headers...]): compiles the CUDA source SOURCE of the current folder, and writes
# lists of numbers, for arrays, to generated/ of the current binary folder: NAME.inc, a fat binary of machine code for every kind
# of device that CUDA 13 knows, and of text; and NAME_ptx.inc, the text alone, ending with a zero, for drivers that are older than
# the toolkit. The lists are made with the target NAME_images.
function(superpipe_embed_kernels name source)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  set(nvcc ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20 -O3 -I${PROJECT_SOURCE_DIR} -ccbin ${SUPERPIPE_NVCC_HOST_COMPILER})
  if(SUPERPIPE_WARNINGS_AS_ERRORS)
    list(APPEND nvcc -Werror all-warnings)
  endif()
  set(embed ${PROJECT_SOURCE_DIR}/cmake/EmbedFile.cmake)
  set(lower ${PROJECT_SOURCE_DIR}/cmake/LowerPtxVersion.cmake)

  set(architectures)
  foreach(sm 75 80 90 100 120)
    list(APPEND architectures -gencode arch=compute_${sm},code=sm_${sm})
  endforeach()
  add_custom_command(OUTPUT ${generated}/${name}.inc
    COMMAND ${nvcc} -fatbin ${architectures} -gencode arch=compute_75,code=compute_75 ${source} -o ${generated}/${name}.fatbin
    COMMAND ${CMAKE_COMMAND} -DINPUT=${generated}/${name}.fatbin -DOUTPUT=${generated}/${name}.inc -P ${embed}
    DEPENDS ${source} ${arg_DEPENDS} ${embed} VERBATIM)
  # A driver refuses text of a version that it does not know. These kernels need nothing new, so the same text under an old
  # version serves drivers that are older than the toolkit; ptxas says whether that is true.
  add_custom_command(OUTPUT ${generated}/${name}_ptx.inc
    COMMAND ${nvcc} -ptx -arch=compute_75 ${source} -o ${generated}/${name}.ptx
    COMMAND ${CMAKE_COMMAND} -DINPUT=${generated}/${name}.ptx -DOUTPUT=${generated}/${name}_old.ptx -P ${lower}
    COMMAND ${CUDAToolkit_BIN_DIR}/ptxas -arch=sm_75 ${generated}/${name}_old.ptx -o ${generated}/${name}_old.cubin
    COMMAND ${CMAKE_COMMAND} -DINPUT=${generated}/${name}_old.ptx -DOUTPUT=${generated}/${name}_ptx.inc -DZERO_AT_END=ON
            -P ${embed}
    DEPENDS ${source} ${arg_DEPENDS} ${lower} ${embed} VERBATIM)
  add_custom_target(${name}_images DEPENDS ${generated}/${name}.inc ${generated}/${name}_ptx.inc)
endfunction()
