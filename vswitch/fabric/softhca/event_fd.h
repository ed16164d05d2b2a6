// Eventfds: how ports wake each other up.
//
// A port's doorbell, and the eventfd by which it waits for room, are in the hands of its peers, and a descriptor that is passed
// to another process shares everything but its number: the peer may fill the counter to its brim, read it empty, and take
// O_NONBLOCK away, at any moment between a check and a use. So no call here relies on the flag of an eventfd that others hold.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_EVENT_FD_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_EVENT_FD_H_

#include "vswitch/fabric/unique_fd.h"

namespace eoib::softhca {

// Non-blocking, closed at exec. Invalid, with errno set, if there is no descriptor left.
UniqueFd MakeEventFd();

// Rings an eventfd that never left this process.
void RingEventFd(int fd);

// Rings an eventfd that other processes hold; never blocks, whatever they do to it.
//
// A write cannot promise that: RWF_NOWAIT is refused for writes to an eventfd (Linux 6.18), and a poll before it can be
// overtaken. What the kernel itself signals never waits and stops at the counter's brim, so the completion of an asynchronous
// request (io_submit, IOCB_FLAG_RESFD) is what rings: an empty write to /dev/null. Where there is no asynchronous I/O, it is
// a write after all.
void RingSharedEventFd(int fd);

// Silences an eventfd, shared or not; never blocks.
void ClearEventFd(int fd);

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_EVENT_FD_H_
