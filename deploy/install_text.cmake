# When the tree is installed: text files for CMAKE_INSTALL_PREFIX. Those of the tree are for the prefix /usr, whose configuration is
# in /etc. Macros, because CMake collects what was installed in a variable.
cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX NORMALIZE OUTPUT_VARIABLE eoib_prefix)
string(REGEX REPLACE "(.)/$" "\\1" eoib_prefix "${eoib_prefix}")
if(eoib_prefix STREQUAL "/usr")
  set(eoib_etc /etc)
else()
  set(eoib_etc "${eoib_prefix}/etc")
endif()

# install_text(FILE DIRECTORY): DIRECTORY is an absolute path.
macro(install_text file directory)
  file(READ "${file}" eoib_text)
  string(REPLACE "/usr/" "${eoib_prefix}/" eoib_text "${eoib_text}")
  string(REGEX REPLACE "([ =-])/etc/" "\\1${eoib_etc}/" eoib_text "${eoib_text}")
  get_filename_component(eoib_name "${file}" NAME)
  set(eoib_target "${directory}/${eoib_name}")
  message(STATUS "Installing: $ENV{DESTDIR}${eoib_target}")
  file(WRITE "$ENV{DESTDIR}${eoib_target}" "${eoib_text}")
  file(CHMOD "$ENV{DESTDIR}${eoib_target}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${eoib_target}")
endmacro()

# install_unit(FILE DIRECTORY): DIRECTORY is below the prefix.
macro(install_unit file directory)
  install_text("${file}" "${eoib_prefix}/${directory}")
endmacro()

# install_configuration(FILE DIRECTORY): DIRECTORY is below /etc. A file that is there already stays as it is.
macro(install_configuration file directory)
  string(REGEX REPLACE "^/etc" "${eoib_etc}" eoib_directory "${directory}")
  get_filename_component(eoib_name "${file}" NAME)
  if(EXISTS "$ENV{DESTDIR}${eoib_directory}/${eoib_name}")
    message(STATUS "Kept: $ENV{DESTDIR}${eoib_directory}/${eoib_name}")
  else()
    install_text("${file}" "${eoib_directory}")
  endif()
endmacro()
