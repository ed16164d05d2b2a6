// tshark, the referee of captures.
#ifndef EOIB_TESTS_LAB_TSHARK_H_
#define EOIB_TESTS_LAB_TSHARK_H_

#include <string>

#include "tests/lab/process.h"

namespace eoib::lab {

// The beginning of a command line that reads the capture `path`. What is behind a port number that the kernel chose is data: by
// chance it is one of the thirty there that tshark takes for a protocol's (44818: EtherNet/IP), and then nothing in it is
// right.
inline Argv TsharkOf(const std::string& path) {
  const std::string ephemeral = "32768-60999,data";  // Linux' ip_local_port_range
  return {"tshark", "-n", "-r", path, "-d", "udp.port==" + ephemeral, "-d", "tcp.port==" + ephemeral};
}

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_TSHARK_H_
