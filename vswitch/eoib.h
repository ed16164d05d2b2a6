/* eoib.h: the switch for programs that embed it, as Open vSwitch's port type "eoib" does.
 *
 * A program opens an HCA port, and vPorts of VESes (virtual switches, partitions of the subnet) on
 * it. A vPort is a port of the program: frames come and go by bursts.
 *
 * Threads. The library runs one thread for each open HCA port, eoib-ctl: multicast groups, paths,
 * the vPort protocol and the liveness of peers. It answers other agents also while the program does
 * not call. A software HCA ("soft:") runs one more. All other work is done in eoib_receive and
 * eoib_send, on the caller's threads. One thread at a time may receive from a queue of a vPort, and
 * one at a time, the same or another, may send to it. Any thread may call the other functions. A
 * handle must not be in use by another thread when it is closed.
 *
 * Errors. Functions that return int return a negative errno value on failure. No function ends the
 * program: if the library finds itself in an impossible state, all later calls with that HCA port
 * and its vPorts fail with -EIO, and eoib_port_failure tells why. Close it then; its resources are
 * leaked.
 *
 * Structs grow at their ends. The caller sets `size` to sizeof the struct that it knows, and zeroes
 * the rest; the library takes missing members for zero and leaves unknown ones alone. The layout of
 * struct eoib_frame does not change within a major version of the library. No C++ exception leaves
 * the library. */
#ifndef EOIB_VSWITCH_EOIB_H_
#define EOIB_VSWITCH_EOIB_H_

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
#define EOIB_NOEXCEPT noexcept
extern "C" {
#else
#define EOIB_NOEXCEPT
#endif

struct eoib_port;  /* an open HCA port */
struct eoib_vport; /* an open vPort */

/* ---- The HCA port
 * ---------------------------------------------------------------------------------------------------------
 */

enum { EOIB_LOG_WARNING = 4, EOIB_LOG_INFO = 6 }; /* as syslog(3) numbers them */

struct eoib_port_options {
  size_t size;
  const char* hca;      /* "verbs:DEVICE/PORT", or "soft:NAME" for a port of a software subnet */
  const char* fabric;   /* soft: the socket of eoib-fabricd; null: /run/eoib/fabricd.sock */
  const char* statedir; /* keeps the agent's identity over restarts; no other program may use it.
                           Null: a new identity */
  /* Called on eoib-ctl with each log line. Null: there is no log. */
  void (*log)(void* aux, int level, const char* text);
  void* log_aux;
};

/* Null on an error, with its text in `error`. errno is EAGAIN then if another try may help, as when
 * the HCA is missing. A subnet that is not ready is no error: the vPorts have no carrier until it
 * is. */
struct eoib_port* eoib_port_open(const struct eoib_port_options* options, char* error,
                                 size_t error_size) EOIB_NOEXCEPT;
/* Closes its vPorts, too. Takes up to a second: it leaves the groups and tells the other agents.
 * Null is fine. */
void eoib_port_close(struct eoib_port* port) EOIB_NOEXCEPT;
/* Null while all is well. Valid until the port is closed. Any failure is final: a lost HCA, or a
 * defect of the library. */
const char* eoib_port_failure(const struct eoib_port* port) EOIB_NOEXCEPT;
/* 1 if the failure is a lost HCA. Closing the port then frees its resources; open it again when the
 * HCA is back. */
int eoib_port_is_lost(const struct eoib_port* port) EOIB_NOEXCEPT;

/* Runs a command of the agent: "show", "fdb/show", "fdb/flush", "fdb/add", "peers", "stats",
 * "drops", "help" ... (`man eoibctl`). Sets *answer to its text, or to the text of the error; free
 * it with eoib_free. Takes as long as eoib-ctl is busy.
 */
int eoib_command(struct eoib_port* port, int argc, const char* const argv[],
                 char** answer) EOIB_NOEXCEPT;
void eoib_free(char* answer) EOIB_NOEXCEPT;

/* ---- vPorts
 * ---------------------------------------------------------------------------------------------------------------
 */

enum {
  EOIB_VPORT_UNFINISHED_CHECKSUMS =
      1, /* takes frames with EOIB_FRAME_CHECKSUM_NEEDED; otherwise the library finishes them */
  EOIB_VPORT_TCP_SEGMENTS = 2, /* takes TCP super-frames; otherwise the library cuts them */
  EOIB_VPORT_UDP_SEGMENTS = 4, /* takes UDP super-frames; otherwise the library cuts them */
};

enum { EOIB_MOST_QUEUES = 8 };

struct eoib_vport_options {
  size_t size;
  const char* name;   /* of the vPort, unique in this HCA port; 1 to 15 characters */
  const char* ves;    /* the name of its VES. All agents of a partition should use one name */
  uint16_t pkey;      /* of the VES: the partition, as a full (0x8000 set) or limited member */
  uint32_t flags;     /* EOIB_VPORT_* */
  const uint8_t* mac; /* six bytes: the address of the program itself, which the vPort announces.
                         Null: there is none */
  /* Queues, at most EOIB_MOST_QUEUES, numbered from 0; 0 is the same as 1. Each has a queue pair
   * and memory for about 3,000 frames. The VES has as many as the vPort with most. */
  unsigned queues;
};

/* Null on an error, with its text in `error`. The vPort is a trunk: frames have their 802.1Q tags,
 * and any number of MACs may be behind it. */
struct eoib_vport* eoib_vport_open(struct eoib_port* port, const struct eoib_vport_options* options,
                                   char* error, size_t error_size) EOIB_NOEXCEPT;
void eoib_vport_close(struct eoib_vport* vport) EOIB_NOEXCEPT;

struct eoib_state {
  size_t size;
  int carrier;  /* 1: the VES is joined, frames pass */
  uint32_t mtu; /* the largest MTU of the vPort: without Ethernet header and two VLAN tags */
  uint64_t carrier_resets; /* how often the carrier came */
  uint64_t changes;        /* of the members above, since the vPort was opened */
};

int eoib_vport_state(struct eoib_vport* vport, struct eoib_state* state) EOIB_NOEXCEPT;
/* Readable after a change of the state or a failure, until the next eoib_vport_state. Belongs to
 * the vPort. */
int eoib_vport_event_fd(const struct eoib_vport* vport) EOIB_NOEXCEPT;

struct eoib_stats {
  size_t size;
  uint64_t sent, sent_bytes;         /* by the program to the switch */
  uint64_t received, received_bytes; /* by the program from the switch */
  uint64_t missed; /* frames for the program that it did not take in time, or that did not fit */
};

int eoib_vport_stats(struct eoib_vport* vport, struct eoib_stats* stats) EOIB_NOEXCEPT;
/* Calls `visit` with each counter of the vPort's VES: counters of frames, and drops by reason
 * ("drop_port_full"). */
int eoib_vport_counters(struct eoib_vport* vport,
                        void (*visit)(void* aux, const char* name, uint64_t value),
                        void* aux) EOIB_NOEXCEPT;

/* Tells what the switch would do with a frame of `length` bytes from the vPort, without sending it:
 * sets *answer to a text with a step on each line, or to that of the error; free it with eoib_free.
 */
int eoib_vport_trace(struct eoib_vport* vport, const void* frame, size_t length,
                     char** answer) EOIB_NOEXCEPT;

/* ---- Frames
 * ---------------------------------------------------------------------------------------------------------------
 */

enum {
  EOIB_FRAME_CHECKSUM_NEEDED =
      1, /* unfinished: the sum from checksum_start on goes to checksum_start + checksum_offset;
          * sent at byte 8 of an SCTP header, the CRC32c. Not received for SCTP */
  EOIB_FRAME_CHECKSUM_GOOD = 2, /* received, and known to be right */
};
enum { EOIB_SEGMENT_NONE = 0, EOIB_SEGMENT_TCP = 1, EOIB_SEGMENT_UDP = 2 };

/* A frame from its destination MAC on, without FCS. */
struct eoib_frame {
  const struct iovec* iov; /* its bytes; to receive, room for them */
  uint32_t iov_count;
  uint32_t length; /* of the frame; eoib_receive sets it */
  uint16_t flags;  /* EOIB_FRAME_* */
  uint16_t checksum_start, checksum_offset;
  uint16_t segment_size; /* of a TCP or UDP super-frame: the payload of each segment. Needs
                            EOIB_FRAME_CHECKSUM_NEEDED */
  uint32_t segment_type; /* EOIB_SEGMENT_* */
  uint32_t reserved;
};

/* All frames of a flow come to one queue, in their order: the other agents choose it by a hash of
 * addresses and ports. Frames to groups and to unknown addresses come to queue 0. Frames of one
 * program's vPorts to each other come to the queue with the sending queue's number, modulo the
 * receiver's queues.
 *
 * One thread at a time receives from a queue, and one at a time sends to it; these may be two. The
 * program owns all memory: frames are copied, so any thread may free it after the call. */

/* Fills up to `count` frames, and returns how many. Frames that do not fit into their room are
 * dropped and count as missed. */
int eoib_receive(struct eoib_vport* vport, unsigned queue, struct eoib_frame* frames,
                 int count) EOIB_NOEXCEPT;
/* Takes frames from the front, and returns how many: fewer if the HCA does not send them fast
 * enough. It refuses (but takes) frames that the switch's rules forbid, which eoib_vport_counters
 * tells. */
int eoib_send(struct eoib_vport* vport, unsigned queue, const struct eoib_frame* frames,
              int count) EOIB_NOEXCEPT;

/* To sleep until frames come: eoib_vport_arm returns 1 if there may be some now, or 0; then wait
 * until eoib_vport_wait_fd is readable, and receive. It may become readable without a frame. The
 * descriptor belongs to the queue and never changes. */
int eoib_vport_wait_fd(const struct eoib_vport* vport, unsigned queue) EOIB_NOEXCEPT;
int eoib_vport_arm(struct eoib_vport* vport, unsigned queue) EOIB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* EOIB_VSWITCH_EOIB_H_ */
