# cmake -DINPUT=FILE -DOUTPUT=FILE.inc [-DZERO_AT_END=ON] -P EmbedFile.cmake
# Writes the bytes of a file as a list of numbers for a C++ array; with ZERO_AT_END, as text that ends with a zero.
file(READ ${INPUT} bytes HEX)
if(ZERO_AT_END)
  string(APPEND bytes "00")
endif()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REPEAT "." 80 line)  # sixteen numbers
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "${bytes}\n")
