// Stands for the interpreter of Python where only names of its functions matter.
#define EXPORT __attribute__((visibility("default")))

EXPORT int _PyEval_EvalFrameDefault(int a) { return 3 * a; }

EXPORT int PyObject_Call(int a) { return 5 * a; }
