// A library under the driver's name that is none.
__attribute__((visibility("default"))) int some_function(void) { return 0; }
