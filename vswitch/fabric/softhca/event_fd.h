// Eventfds: how ports wake each other up.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_EVENT_FD_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_EVENT_FD_H_

#include "vswitch/fabric/unique_fd.h"

namespace eoib::softhca {

// Non-blocking, closed at exec. Invalid, with errno set, if there is no descriptor left.
UniqueFd MakeEventFd();

// Never blocks on an eventfd that MakeEventFd made: one whose counter is full has rung already.
void RingEventFd(int fd);

// Silences an eventfd; never blocks, not even if the program that was given it (an asynchronous event's, umad's) has made it
// blocking.
void ClearEventFd(int fd);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_EVENT_FD_H_
