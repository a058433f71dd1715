# cmake -DINPUT=FILE.ptx -DOUTPUT=FILE.ptx -P LowerPtxVersion.cmake
# Says that the text is of PTX ISA 7.0 (CUDA 11.0).
file(READ ${INPUT} text)
string(REGEX REPLACE "\n\\.version [0-9.]+\n" "\n.version 7.0\n" lowered "${text}")
if(lowered STREQUAL text)
  message(FATAL_ERROR "${INPUT} has no .version line")
endif()
file(WRITE ${OUTPUT} "${lowered}")
