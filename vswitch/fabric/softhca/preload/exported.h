// EOIB_EXPORTED: defines a function of the library that a preload library replaces.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_EXPORTED_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_EXPORTED_H_

// The function is named `symbol` in the object and Preload_NAME in the source. It does not
// redeclare the replaced function, because some of those are macros and none is noexcept.
#define EOIB_EXPORTED(result, symbol, name, arguments)                 \
  extern "C" result Preload_##name arguments noexcept __asm__(symbol); \
  result Preload_##name arguments noexcept

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_EXPORTED_H_
