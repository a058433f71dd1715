# Run by cpack once the files are installed for the package, and before it packs them: brings them
# into the form and to the places that Debian's policy wants.

set(_usr ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr)
set(_doc ${_usr}/share/doc/superpipe)
if(NOT EXISTS ${_doc}/LICENSE)
  message(FATAL_ERROR "nothing is installed in ${_usr}")
endif()

# Without time and name, so that the same bytes come of the same bytes.
function(compress)
  execute_process(COMMAND gzip --best --no-name ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(GLOB _pages ${_usr}/share/man/man1/*.1)
compress(${_pages})

# zsh of Debian reads this folder, and the other below /usr/local alone.
file(RENAME ${_usr}/share/zsh/site-functions ${_usr}/share/zsh/vendor-completions)

# The licences in one file, which stays where documentation is not installed.
file(READ ${CPACK_SUPERPIPE_DEBIAN_DIR}/copyright _copyright)
file(GLOB _licences ${_doc}/licenses/* ${_doc}/*.copyright)
list(SORT _licences)
foreach(_licence IN LISTS _licences)
  cmake_path(GET _licence FILENAME _name)
  string(REGEX REPLACE "\\.copyright$" "" _name ${_name})
  file(READ ${_licence} _text)
  string(APPEND _copyright "\n-------- ${_name} --------\n\n${_text}")
endforeach()
if(_licences)
  file(REMOVE ${_licences})
endif()
file(REMOVE_RECURSE ${_doc}/licenses)
file(REMOVE ${_doc}/LICENSE)
file(WRITE ${_doc}/copyright "${_copyright}")

# string(TIMESTAMP) takes SOURCE_DATE_EPOCH, where it is set.
set(ENV{LC_ALL} C)
string(TIMESTAMP _date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(_version ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
file(WRITE ${_doc}/changelog.Debian "superpipe (${_version}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}: changelog.gz says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${_date}
")
file(COPY_FILE ${CPACK_SUPERPIPE_SOURCE_DIR}/CHANGELOG.md ${_doc}/changelog)
compress(${_doc}/changelog.Debian ${_doc}/changelog)

file(MAKE_DIRECTORY ${_usr}/share/lintian/overrides)
file(COPY_FILE ${CPACK_SUPERPIPE_DEBIAN_DIR}/lintian-overrides
  ${_usr}/share/lintian/overrides/superpipe)

# Files that were written here have permissions by the umask of the one who packs.
file(GLOB_RECURSE _files LIST_DIRECTORIES ON ${_usr}/share/*)
foreach(_file IN LISTS _files ITEMS ${_usr}/share)
  if(IS_DIRECTORY ${_file})
    file(CHMOD ${_file} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
      GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  else()
    file(CHMOD ${_file} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  endif()
endforeach()

# Depends, from the symbols that the binaries use. Not by CPack's own call of dpkg-shlibdeps, with
# which come scripts that run ldconfig as root: no library here is for it. The driver and the
# runtime library are found among simgpu's, so that no package has to have them.
file(GLOB_RECURSE _files LIST_DIRECTORIES OFF ${_usr}/bin/* ${_usr}/lib/*)
set(_binaries)
foreach(_file IN LISTS _files)
  file(READ ${_file} _magic LIMIT 4 HEX)
  if(_magic STREQUAL 7f454c46 AND NOT IS_SYMLINK ${_file})
    list(APPEND _binaries ${_file})
  endif()
endforeach()
set(_work ${CPACK_TEMPORARY_INSTALL_DIRECTORY}.depends)
file(MAKE_DIRECTORY ${_work}/debian)
file(WRITE ${_work}/debian/control "")
execute_process(COMMAND dpkg-shlibdeps --ignore-missing-info -O
  -l${_usr}/lib/superpipe/simgpu ${_binaries}
  WORKING_DIRECTORY ${_work} RESULT_VARIABLE _result OUTPUT_VARIABLE _depends ERROR_VARIABLE _errors
  OUTPUT_STRIP_TRAILING_WHITESPACE)
file(REMOVE_RECURSE ${_work})
if(NOT _result EQUAL 0 OR NOT _depends MATCHES "^shlibs:Depends=(.+)$")
  message(FATAL_ERROR "dpkg-shlibdeps does not say what the binaries need: ${_errors}${_depends}")
endif()
set(_depends ${CMAKE_MATCH_1})
# dpkg-shlibdeps asks for the glibc in which a symbol lies now. glibc 2.34 took what was libpthread's and
# libdl's into libc, under the old versions of symbols, which older ones have where these binaries look.
execute_process(COMMAND objdump --dynamic-syms ${_binaries} OUTPUT_VARIABLE _symbols
  ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "GLIBC_2\\.[0-9]+" _versions "${_symbols}")
list(REMOVE_DUPLICATES _versions)
list(SORT _versions COMPARE NATURAL)
list(GET _versions -1 _newest)
string(REPLACE GLIBC_ "" _newest ${_newest})
string(REGEX REPLACE "libc6 \\(>= [0-9.]+\\)" "libc6 (>= ${_newest})" _depends "${_depends}")
set(CPACK_DEBIAN_PACKAGE_DEPENDS ${_depends})
