// Eventfds, by which threads and processes wake each other.
#ifndef EOIB_VSWITCH_BASE_EVENT_FD_H_
#define EOIB_VSWITCH_BASE_EVENT_FD_H_

#include "vswitch/base/unique_fd.h"

namespace eoib {

// Makes a non-blocking eventfd, closed at exec. Invalid, with errno set, if no descriptor is left.
UniqueFd MakeEventFd();

// Makes an eventfd readable. Never blocks: a full counter means that it is readable already.
void RingEventFd(int fd);

// Reads an eventfd. Never blocks, even if the program that holds it (for asynchronous events, or
// from umad) made it blocking.
void ClearEventFd(int fd);

}  // namespace eoib

#endif  // EOIB_VSWITCH_BASE_EVENT_FD_H_
