# cmake -DINPUT=FILE -DOUTPUT=FILE.inc -P embed.cmake
# Writes the bytes of a file as a list of numbers for a C++ array.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REPEAT "." 80 line)  # sixteen numbers
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "${bytes}\n")
