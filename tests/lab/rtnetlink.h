// `ip link` and `ip address` without starting a process: labs use them for every host of every
// test, and in an emulated machine a process takes a third of a second. They act in the calling
// thread's network namespace. A failure ends the test program.
#ifndef EOIB_TESTS_LAB_RTNETLINK_H_
#define EOIB_TESTS_LAB_RTNETLINK_H_

#include <string>

namespace eoib::lab {

// Does not use if_nametoindex: for an unknown name the kernel would run modprobe.
bool HasLink(const std::string& interface);
void SetLinkUp(const std::string& interface);
// `prefix` is "10.0.0.1/24" or "fd00::1/64".
void AddInterfaceAddress(const std::string& interface, const std::string& prefix);

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_RTNETLINK_H_
