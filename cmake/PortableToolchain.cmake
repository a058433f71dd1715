# The compiler of the preset `portable`: zig as PyPI has it, with glibc's symbols as of 2.28 and a
# C++ runtime of its own in each binary. scripts/setup_portable made all that is named here.
get_filename_component(_portable ${CMAKE_CURRENT_LIST_DIR}/../.deps/portable ABSOLUTE)
if(NOT EXISTS ${_portable}/made)
  message(FATAL_ERROR "the portable compiler is not there: run scripts/setup --portable")
endif()
set(CMAKE_C_COMPILER ${_portable}/bin/clang)
set(CMAKE_CXX_COMPILER ${_portable}/bin/clang++)
# nvcc takes g++ and clang alone. What it makes of a kernel's source needs nothing new of glibc.
set(SUPERPIPE_NVCC_HOST_COMPILER g++)
# The headers of Debian's packages are there, for compilers and for find_path(). /usr/include itself
# would bring this machine's glibc along (CMakeLists.txt keeps it out).
list(PREPEND CMAKE_PREFIX_PATH ${_portable})
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${_portable}/include)
set(CMAKE_C_STANDARD_INCLUDE_DIRECTORIES ${_portable}/include)
set(SUPERPIPE_LICENCES ${_portable}/licenses)
set(SUPERPIPE_CHECK_LICENCES ${_portable}/check-licenses)
# simgpu was tried with 2.31 (Debian 11) and 2.36, and not with what is older.
set(SUPERPIPE_SIMULATES_FROM_GLIBC 2.31)
unset(_portable)
