# shellcheck shell=sh
#@ all
# follow.sh: reads a command's output from an offset, to its end.

h_follow() {
    exec 9>&2 2>/dev/null
    h_begun=no
    if ! h_request || [ -z "$h_id" ]; then
        h_trail "refused reason=request"
    elif ! h_opened; then
        case $h_why in store-changed) h_trail store-changed ;; *) h_trail "refused reason=$h_why" ;; esac
    else
        h_follow_one
    fi
}

h_follow_one() {
    # shellcheck disable=SC2086,SC2154 # words are wanted; the list's first piece
    set -- $h_ids_1 -
    h_place "$1" "$2"
    h_front_dir=$h_dir
    h_state "$h_dir" "$h_id"
    h_proven "$h_dir"
    if [ ! -f "$h_dir/out" ] || [ ! -f "$h_dir/err" ] || [ "$h_st" = absent ] || [ "$h_st" = damaged ]; then
        h_follow_none
        return
    fi
    h_begin following
    exec 3<"$h_dir/out" 4<"$h_dir/err"
    h_skip 3 "$h_q_out"
    h_skip 4 "$h_q_err"
    h_pause=0.05
    h_listen
    h_follow_live
    h_rc=$?
    [ -z "$h_listener" ] || kill "$h_listener"
    [ "$h_rc" -ne 0 ] || h_follow_end
}

# h_listen: a caller who holds its side open while we read for it (`hold yes`) is gone when that ends, and then so are we. h_listener waits for
# that; it has no child that could stay.
h_listen() {
    h_listener=
    [ "$h_q_wait:$h_q_hold" = yes:yes ] || return 0
    h_stat self
    h_me=$h_pid
    exec 5<&0
    {
        exec <&5 >/dev/null 3<&- 4<&- 5<&- 9>&-
        while read -r h_x; do :; done
        [ ! "/proc/$h_me/fd/3" -ef "$h_dir/out" ] || kill "$h_me"
    } &
    h_listener=$!
    exec 5<&-
}

# h_follow_none: no output to read. A finish without it (closed at the gate) is told all the same.
h_follow_none() {
    if [ "$h_st" = finished ]; then h_trail "${h_r_finish#1 }"; else h_trail "state state=$h_st"; fi
}

# h_follow_live: copies while it runs and the caller waits. 1 when the channel is gone.
h_follow_live() {
    while :; do
        case $h_st:$h_q_wait in running:yes | orphaned:yes | unknown:yes) ;; *) return 0 ;; esac
        h_copy || return 1
        if [ "$h_moved" -gt 0 ]; then h_pause=0.05; else h_slower; fi
        h_nap_short
        h_scan=
        h_state "$h_dir" "$h_id"
    done
}

h_slower() {
    case $h_pause in 0.05) h_pause=0.1 ;; 0.1) h_pause=0.2 ;; 0.2) h_pause=0.5 ;; *) h_pause=1 ;; esac
}

h_nap_short() {
    if [ "$h_sleepm" = part ]; then sleep "$h_pause"; else sleep 1; fi
}

# h_follow_end: the rest, and the word about the end.
h_follow_end() {
    case $h_st in
        finished) h_front_end "${h_r_finish#1 }" ;;
        ended) h_front_end "${h_r_ended#1 }" ;;
        *)
            h_copy || return 1
            h_trail "state state=$h_st"
            ;;
    esac
}

# h_alone: goes on for run.sh where the supervisor died: `TOKEN BEGUN DIR` on stdin, the files on 3 and 4, the channel's stderr on 9.
h_alone() {
    exec 2>/dev/null
    IFS=' ' read -r h_token h_begun h_front_dir
    h_id=${h_front_dir##*/}
    h_store_id && h_caps_read || { h_trail "state state=unknown"; return; }
    h_state "$h_front_dir" "$h_id"
    h_record "$h_front_dir/go" go
    h_x=cancel
    case $h_rec in *" by=finder "*) h_x=internal ;; esac
    h_field "$h_r_finish" reason
    case $h_st:$h_begun:$h_val in
        finished:yes:*) h_front_end "${h_r_finish#1 }" ;;
        finished:no:not-started) h_trail "not-started reason=$h_x" ;;
        *) h_trail "state state=$h_st" ;;
    esac
}
