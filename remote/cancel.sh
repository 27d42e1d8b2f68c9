# shellcheck shell=sh
#@ all
# cancel.sh: stopping a command, and closing one that has not started.

h_cancel_verb() {
    h_begin_answer
    if ! h_request || [ -z "$h_q_mode" ]; then
        h_error request
    elif ! h_opened; then
        h_error "$h_why"
    else
        h_store_line
        h_i=0
        while [ "$h_i" -lt "$h_chunks" ]; do
            h_i=$((h_i + 1))
            eval "h_piece=\$h_ids_$h_i"
            h_each "$h_piece" h_cancel_line
            h_scan=
            h_report_piece "$h_piece"
            h_sweep_litter
        done
    fi
    h_end_answer
}

# h_cancel_line ID WITNESS TOKEN: an execution that has not started is closed; one that runs is stopped if the mode says so.
h_cancel_line() {
    h_is id "$1" && h_is hex "$3" || return 0
    [ "$2" = - ] || h_fence "$1" "$2" "$3"
    h_place "$1" "$2"
    h_scan='' h_sent=none
    h_state "$h_dir" "$1"
    case $h_st in running | orphaned | lost | ended | unknown) h_cancel_started "$1" "$3" ;; esac
    h_scan=''
    h_count "$1"
    h_line "cancel $1 sent=$h_sent survivors=$h_val"
}

h_cancel_started() {
    h_field "$h_r_start" token
    h_winner=$h_val
    if [ -s "$h_dir/go" ] || h_take_go "$h_dir" "$2" cancel; then
        h_shut "$h_dir" "$1"
    elif [ "$h_q_mode" = stop ] && [ "$h_st" != lost ]; then
        h_stop "$h_dir" "$h_winner" cancel "$h_q_grace"
        h_wait_finish
    fi
}

# h_wait_finish: the supervisor needs a moment to write down the end.
h_wait_finish() {
    h_tries=40
    while [ "$h_tries" -gt 0 ] && [ ! -e "$h_dir/finish" ]; do
        h_alive "$h_dir"
        [ "$h_val" = yes ] || return 0
        h_tries=$((h_tries - 1))
        h_short
    done
}
