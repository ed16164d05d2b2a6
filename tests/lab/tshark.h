// The command line of tshark, which checks our captures.
#ifndef EOIB_TESTS_LAB_TSHARK_H_
#define EOIB_TESTS_LAB_TSHARK_H_

#include <string>

#include "tests/lab/process.h"

namespace eoib::lab {

// The start of a command line that reads the capture `path`. It makes tshark treat ephemeral ports
// as plain data: some thirty of them are also protocols' ports (44818: EtherNet/IP), and by chance
// tshark would report errors in our payload.
inline Argv TsharkOf(const std::string& path) {
  const std::string ephemeral = "32768-60999,data";  // Linux' ip_local_port_range
  return {
      "tshark", "-n", "-r", path, "-d", "udp.port==" + ephemeral, "-d", "tcp.port==" + ephemeral};
}

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_TSHARK_H_
