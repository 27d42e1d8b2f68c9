# shellcheck shell=sh
#@ all
# ask.sh: probe, fence, list: questions that need no contact and no journal.

# h_opened: the store as it is. What this host can do is found out anew where it is not written down: questions need no contact.
h_opened() {
    h_store_open || { [ "$h_why" = caps ] && umask 077 && h_caps_make; }
}

# h_probe: tells of every execution that was asked for.
h_probe() {
    h_begin_answer
    if ! h_request; then
        h_error request
    elif ! h_opened; then
        h_error "$h_why"
    else
        h_store_line
        h_report_all
    fi
    h_end_answer
}

h_fence_verb() {
    h_begin_answer
    if ! h_request || [ -z "$h_q_store" ]; then
        h_error request
    elif ! h_opened; then
        h_error "$h_why"
    else
        h_store_line
        h_fence_all
    fi
    h_end_answer
}

h_store_line() {
    h_line "store $h_sid"
}

# h_list_verb: the newest executions of the store, at most `max`.
h_list_verb() {
    h_begin_answer
    if ! h_request; then
        h_error request
    elif ! h_opened; then
        h_error "$h_why"
    else
        h_store_line
        h_list_ids
        h_chunk_close
        h_report_all
    fi
    h_end_answer
}

# h_list_ids: names of executions sort by time, so the last ones are the newest.
h_list_ids() {
    set +f
    set -- "$h_store"/x/*/act_*
    set -f
    for h_id in $(for h_x in "$@"; do h_put "${h_x##*/}$h_nl"; done | sort | tail -n "$h_q_max"); do
        ! h_is id "$h_id" || h_list "$h_id"
    done
}
