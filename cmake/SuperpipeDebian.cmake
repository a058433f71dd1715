# The Debian package, by CPack from what `cmake --install --component superpipe` gives:
#
#   cpack -G DEB --config build/PRESET/CPackConfig.cmake -B FOLDER
#
# scripts/deb packs the preset `portable`, which needs glibc 2.28 alone.
# cmake/debian/finish_tree.cmake puts the installed files into Debian's form before.

if(SKBUILD)
  # A wheel's manual pages and completions lie elsewhere.
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME superpipe)
set(CPACK_PACKAGE_VENDOR superpipe)
# The project gives no address: a distributor's own goes here (-DCPACK_PACKAGE_CONTACT=...).
set(CPACK_PACKAGE_CONTACT "superpipe maintainers <maintainers@superpipe.invalid>" CACHE STRING
  "Maintainer of the Debian package")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};superpipe;superpipe;/")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
# NVIDIA's runtime library is in it, which is not free software.
set(CPACK_DEBIAN_PACKAGE_SECTION non-free/utils)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "run CUDA programs whose models are larger than the GPU")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "\
superpipe stands in front of the CUDA driver, learns which buffers each
kernel uses, keeps what is needed next on the device and the rest in host
memory, and brings all of it back in time. Programs need no change, and
compute the same bits.

simgpu, a CUDA device in software, comes along: no GPU and no driver are
needed to try it.")
# finish_tree.cmake computes Depends. The driver is never among them: it is not there where programs
# run on simgpu. A Suggests, because a Recommends would install it there.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libcuda1, bash-completion, man-db")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

# For finish_tree.cmake.
set(CPACK_SUPERPIPE_DEBIAN_DIR ${CMAKE_CURRENT_LIST_DIR}/debian)
set(CPACK_SUPERPIPE_SOURCE_DIR ${PROJECT_SOURCE_DIR})
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian/finish_tree.cmake)
include(CPack)
