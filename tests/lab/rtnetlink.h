// What `ip link` and `ip address` do, without a process: labs do it for every host of every test, and in an emulated machine a
// process takes a third of a second. In the calling thread's network namespace. What cannot be done ends the test program.
#ifndef EOIB_TESTS_LAB_RTNETLINK_H_
#define EOIB_TESTS_LAB_RTNETLINK_H_

#include <string>

namespace eoib::lab {

// Not by if_nametoindex, for which the kernel runs modprobe if there is none.
bool HasLink(const std::string& interface);
void SetLinkUp(const std::string& interface);
// `prefix` is "10.0.0.1/24" or "fd00::1/64".
void AddInterfaceAddress(const std::string& interface, const std::string& prefix);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_RTNETLINK_H_
