/* The HCA ports that netdevs of type "eoib" use, and the operator's commands on them.
 *
 * An HCA that is missing is waited for: `eoib_hca_run` tries to open it about once a second. A netdev that waits in its datapath keeps its
 * reference and looks at `port`. A netdev that could not be added is gone meanwhile, with its error in the database, so the bridge is told
 * to add it again when the HCA is here. */
#include <config.h>

#include <errno.h>
#include <string.h>

#include "if-notifier.h"
#include "openvswitch/dynamic-string.h"
#include "openvswitch/poll-loop.h"
#include "openvswitch/vlog.h"
#include "timeval.h"
#include "vswitch/ovs/netdev_eoib.h"

VLOG_DEFINE_THIS_MODULE(eoib_hca_ports);

enum {                                                  /* milliseconds */
    RETRY_INTERVAL = 1000,
    /* The bridge adds a port within one turn of the main loop. */
    KEEP_UNUSED_OPEN = 5000,
    /* Nothing tells when the operator deletes a port that was never added. Once a minute the bridge tries again to add those that it has,
     * and the log tells what is missing. */
    KEEP_UNUSED_MISSING = 60000,
};

static struct ovs_list hca_ports = OVS_LIST_INITIALIZER(&hca_ports);

static void
log_line(void *aux OVS_UNUSED, int level, const char *text)
{
    if (level == EOIB_LOG_WARNING) {
        VLOG_WARN("%s", text);
    } else {
        VLOG_DBG("%s", text);
    }
}

/* Returns whether there is something new: it is open, or another trouble. */
static bool
try_to_open(struct hca_port *hca)
{
    struct eoib_port_options options = { .size = sizeof options, .hca = hca->hca, .fabric = hca->fabric, .log = log_line };
    long long int start = time_msec(), now;
    char error[512] = "";

    hca->port = eoib_port_open(&options, error, sizeof error);
    if (hca->port) {
        free(hca->trouble);
        hca->trouble = NULL;
        return true;
    }
    hca->is_awaited = errno == EAGAIN;
    /* The main loop has other work: tries take a tenth of its time at most. */
    now = time_msec();
    hca->retry_at = hca->is_awaited ? now + MAX(RETRY_INTERVAL, 9 * (now - start)) : LLONG_MAX;
    if (nullable_string_is_equal(hca->trouble, error)) {
        return false;
    }
    free(hca->trouble);
    hca->trouble = xstrdup(error);
    if (hca->is_awaited) {
        VLOG_WARN("%s; waiting for it", error);
    }
    return true;
}

static void
remove_hca(struct hca_port *hca)
{
    ovs_list_remove(&hca->node);
    eoib_port_close(hca->port);
    free(hca->trouble);
    free(hca->hca);
    free(hca->fabric);
    free(hca);
}

struct hca_port *
eoib_hca_ref(const struct eoib_config *config)
{
    struct hca_port *hca;

    LIST_FOR_EACH (hca, node, &hca_ports) {
        if (!strcmp(hca->hca, config->hca) && nullable_string_is_equal(hca->fabric, config->fabric)
            && !(hca->port && eoib_port_failure(hca->port))) {
            hca->users++;
            return hca;
        }
    }
    hca = xzalloc(sizeof *hca);
    hca->hca = xstrdup(config->hca);
    hca->fabric = nullable_xstrdup(config->fabric);
    hca->users = 1;
    ovs_list_push_back(&hca_ports, &hca->node);
    try_to_open(hca);
    return hca;
}

void
eoib_hca_unref(struct hca_port *hca)
{
    if (--hca->users) {
        return;
    }
    if (hca->port || !hca->is_awaited) {
        remove_hca(hca);
    } else {
        hca->forget_at = time_msec() + KEEP_UNUSED_MISSING;
    }
}

/* Returns whether the bridge must try again to add ports. */
static bool
run_missing(struct hca_port *hca)
{
    if (time_msec() < hca->retry_at || !try_to_open(hca)) {
        return false;
    }
    if (hca->port) {
        VLOG_INFO("HCA %s is here", hca->hca);
        hca->forget_at = time_msec() + KEEP_UNUSED_OPEN;
    }
    return !hca->users;
}

void
eoib_hca_run(void)
{
    struct hca_port *hca, *next;
    bool add_again = false;

    LIST_FOR_EACH_SAFE (hca, next, node, &hca_ports) {
        if (!hca->port) {
            add_again = run_missing(hca) || add_again;
        }
        if (!hca->users && time_msec() >= hca->forget_at) {
            add_again = add_again || !hca->port;
            remove_hca(hca);
        }
    }
    if (add_again) {
        if_notifier_manual_report();
    }
}

void
eoib_hca_wait(void)
{
    struct hca_port *hca;

    LIST_FOR_EACH (hca, node, &hca_ports) {
        if (!hca->port) {
            poll_timer_wait_until(hca->retry_at);
        }
        if (!hca->users) {
            poll_timer_wait_until(hca->forget_at);
        }
    }
}

/* Runs `command` (aux), with the arguments of the operator, on all HCA ports. */
void
eoib_run_command(struct unixctl_conn *conn, int argc, const char *argv[], void *command)
{
    struct ds answers = DS_EMPTY_INITIALIZER;
    const char *words[8] = { command };
    struct hca_port *hca;
    bool any = false;

    for (int i = 1; i < argc; i++) {
        words[i] = argv[i];
    }
    LIST_FOR_EACH (hca, node, &hca_ports) {
        char *answer;
        int error;

        if (!hca->port && !strcmp(command, "show")) {
            ds_put_format(&answers, "waiting for the HCA: %s\n", hca->trouble);
            any = true;
        }
        if (!hca->port) {
            continue;
        }
        error = eoib_command(hca->port, argc, words, &answer);
        any = any || !error;
        if (!error || !answers.length) {
            ds_put_cstr(&answers, answer ? answer : "");
        }
        eoib_free(answer);
    }
    if (any) {
        unixctl_command_reply(conn, ds_cstr(&answers));
    } else {
        unixctl_command_reply_error(conn, answers.length ? ds_cstr(&answers) : "no port of type eoib has an HCA");
    }
    ds_destroy(&answers);
}
