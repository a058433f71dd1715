# Uses what scripts/setup put into the checkout (.deps, .venv), unless told otherwise. Included before
# project(), so that the compilers are chosen from it too.

set(_superpipe_root ${CMAKE_CURRENT_LIST_DIR}/..)
cmake_path(NORMAL_PATH _superpipe_root)

if(NOT DEFINED CUDAToolkit_ROOT AND NOT DEFINED ENV{CUDAToolkit_ROOT}
   AND EXISTS ${_superpipe_root}/.deps/cuda/bin/nvcc)
  set(CUDAToolkit_ROOT ${_superpipe_root}/.deps/cuda CACHE PATH "The CUDA toolkit")
endif()
if(NOT DEFINED Python3_EXECUTABLE AND EXISTS ${_superpipe_root}/.venv/bin/python3)
  set(Python3_EXECUTABLE ${_superpipe_root}/.venv/bin/python3 CACHE FILEPATH "Python with numpy")
endif()

unset(_superpipe_root)
