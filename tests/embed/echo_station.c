/* An example of a program that embeds the switch: a station that sends Ethernet frames of type
 * 0x88b6 back to their senders.
 *
 *   echo_station HCA FABRIC MAC          answers until standard input ends
 *   echo_station HCA FABRIC MAC PEER     asks PEER until it has answered; prints the answer and the
 * way to PEER
 *
 * HCA is "soft:NAME" or "verbs:DEVICE/PORT"; FABRIC the socket of eoib-fabricd. The VES is "red",
 * with P_Key 0x8001. */
#include <eoib.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BURST = 8, ROOM = 4096, MAC = 6, HEADER = 14, SMALLEST = 60 };

static unsigned char memory[BURST][ROOM];
static struct iovec iov[BURST];
static struct eoib_frame frames[BURST];

static void parse_mac(const char* text, unsigned char* mac) {
  if (sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", &mac[0], &mac[1], &mac[2], &mac[3],
             &mac[4], &mac[5]) == 6)
    return;
  fprintf(stderr, "\"%s\" is no MAC address\n", text);
  exit(2);
}

static void check(int result, const char* what) {
  if (result >= 0) return;
  fprintf(stderr, "%s: %s\n", what, strerror(-result));
  exit(1);
}

static void ask(struct eoib_vport* vport, const unsigned char* from, const unsigned char* to) {
  unsigned char bytes[SMALLEST] = {0};
  struct iovec whole = {bytes, sizeof bytes};
  struct eoib_frame frame = {.iov = &whole, .iov_count = 1, .length = sizeof bytes};
  memcpy(bytes, to, MAC);
  memcpy(bytes + MAC, from, MAC);
  bytes[12] = 0x88, bytes[13] = 0xb6;
  strcpy((char*)bytes + HEADER, "hello");
  check(eoib_send(vport, 0, &frame, 1), "send");
}

/* Returns how many frames for us came; sends them back with `answer`. */
static int serve(struct eoib_vport* vport, const unsigned char* mac, int answer) {
  int i, ours = 0, count;
  for (i = 0; i < BURST; i++) {
    iov[i] = (struct iovec){memory[i], ROOM};
    frames[i] = (struct eoib_frame){.iov = &iov[i], .iov_count = 1};
  }
  count = eoib_receive(vport, 0, frames, BURST);
  check(count, "receive");
  for (i = 0; i < count; i++) {
    unsigned char* frame = memory[i];
    if (memcmp(frame, mac, MAC) != 0 || frame[12] != 0x88 || frame[13] != 0xb6) continue;
    ours++;
    if (!answer) {
      printf("%s from %02x:%02x:%02x:%02x:%02x:%02x\n", (char*)frame + HEADER, frame[6], frame[7],
             frame[8], frame[9], frame[10], frame[11]);
      continue;
    }
    memcpy(frame, frame + MAC, MAC);
    memcpy(frame + MAC, mac, MAC);
    check(eoib_send(vport, 0, &frames[i], 1), "send");
  }
  return ours;
}

/* Prints what the switch does with a frame for `to`. */
static void trace(struct eoib_vport* vport, const unsigned char* from, const unsigned char* to) {
  unsigned char bytes[SMALLEST] = {0};
  char* answer;
  memcpy(bytes, to, MAC);
  memcpy(bytes + MAC, from, MAC);
  bytes[12] = 0x88, bytes[13] = 0xb6;
  check(eoib_vport_trace(vport, bytes, sizeof bytes, &answer), "trace");
  printf("%s", answer);
  eoib_free(answer);
}

int main(int argc, char** argv) {
  unsigned char mac[MAC], peer[MAC];
  char error[512] = "";
  struct eoib_port* port;
  struct eoib_vport* vport;
  int done = 0;
  if (argc < 4) return 2;
  parse_mac(argv[3], mac);
  if (argc > 4) parse_mac(argv[4], peer);
  port = eoib_port_open(
      &(struct eoib_port_options){
          .size = sizeof(struct eoib_port_options), .hca = argv[1], .fabric = argv[2]},
      error, sizeof error);
  vport = port == NULL ? NULL
                       : eoib_vport_open(
                             port,
                             &(struct eoib_vport_options){.size = sizeof(struct eoib_vport_options),
                                                          .name = "echo",
                                                          .ves = "red",
                                                          .pkey = 0x8001,
                                                          .mac = mac},
                             error, sizeof error);
  if (vport == NULL) {
    fprintf(stderr, "echo_station: %s\n", error);
    return 1;
  }
  while (!done) {
    struct pollfd wait[] = {{eoib_vport_wait_fd(vport, 0), POLLIN, 0},
                            {argc > 4 ? -1 : STDIN_FILENO, POLLIN, 0}};
    char byte;
    if (argc > 4) ask(vport, mac, peer);
    if (eoib_vport_arm(vport, 0) == 0) poll(wait, 2, argc > 4 ? 100 : -1);
    done = serve(vport, mac, argc <= 4) > 0 && argc > 4;
    if (wait[1].revents != 0 && read(STDIN_FILENO, &byte, 1) <= 0) done = 1;
  }
  if (argc > 4) trace(vport, mac, peer);
  eoib_vport_close(vport);
  eoib_port_close(port);
  return 0;
}
