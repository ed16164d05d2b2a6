// How a preload library defines a name of the library that it stands in for.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_EXPORTED_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_EXPORTED_H_

// A definition that goes by the name `symbol` in the object, and Preload_NAME in the source. It does not redeclare the other
// library's function: some are macros there, and none is noexcept.
#define EOIB_EXPORTED(result, symbol, name, arguments)                 \
  extern "C" result Preload_##name arguments noexcept __asm__(symbol); \
  result Preload_##name arguments noexcept

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_PRELOAD_EXPORTED_H_
