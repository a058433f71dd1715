// A library that is called like the driver and is none.

extern "C" __attribute__((visibility("default"))) int not_a_driver() { return 1; }
