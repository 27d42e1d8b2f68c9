# shellcheck shell=sh
#@ all more
# verify.sh: ends that are not the ordinary one: a verify command, a start that is closed without running.

# h_verify_run: h_verify is the status of the verify command, `-` if it was stopped.
h_verify_run() {
    h_now
    h_rec="1 ended id=$h_id store=$h_sid token=$h_token raw=$h_raw out=$h_size_out err=$h_size_err wall=$h_wall up=$h_up end"
    # no room: then without it; a name for half a record would spoil the end
    h_write "$h_dir/b.$h_token" "$h_rec" && ln "$h_dir/b.$h_token" "$h_dir/ended" && h_sync "$h_dir/ended" "$h_dir"
    h_watch "${h_q_timeout:-600}" verify
    h_launch "$h_s_verify" /dev/null /dev/null /dev/null
    h_unwatch
    h_status "$h_rc"
    h_verify=$h_val
    case $h_verify in 143 | 137) ! h_asked ' verify cancel ' || h_verify=- ;; esac
}

# h_asked WORDS: whether a signal was asked for one of these reasons.
h_asked() {
    [ -e "$h_dir/y.$h_token" ] || return 1
    while read -r h_x h_y; do
        case $1 in *" $h_x "*) return 0 ;; esac
    done <"$h_dir/y.$h_token"
    return 1
}

# h_take_go DIRECTORY TOKEN WHO: competes with the supervisor for the last word before the command. Only in the boot of the start: `go` is not
# synced, so after another boot its absence proves nothing. 0: it is ours; the command has not run and cannot.
h_take_go() {
    h_where
    h_field "$h_r_start" boot
    [ "$h_val" = "$h_boot" ] && [ "$h_boot" != - ] && [ ! -e "$1/go" ] || return 1
    h_write "$1/k.$2" "1 go by=$3 token=$2 end" || return 1
    ln "$1/k.$2" "$1/go" 2>/dev/null
    rm -f "$1/k.$2"
    h_record "$1/go" go && [ "$h_rec" = "1 go by=$3 token=$2 end" ]
}

# h_shut DIRECTORY ID: whether somebody took `go` to keep the command from running. The record that says so is the proof, and whoever sees it
# writes down the end: h_st is `finished`, or `unknown` where that cannot be made durable.
h_shut() {
    [ -s "$1/go" ] && h_record "$1/go" go || return 1
    case $h_rec in "1 go by=cancel "* | "1 go by=front "* | "1 go by=finder "*) ;; *) return 1 ;; esac
    h_st=unknown h_proof=sync
    h_field "$h_r_start" token
    h_z=$h_val
    h_now
    h_not_started "$2" "$h_z"
    h_stat self
    h_tmp=$1/g.$h_pid.$h_began
    h_write "$h_tmp" "$h_rec" && ln "$h_tmp" "$1/finish"
    rm -f "$h_tmp"
    h_load "$1" finish
    # the start, too: its supervisor may not have come so far
    [ -n "$h_r_finish" ] && h_sync "$1/start" "$1/go" "$1/finish" "$1" "${1%/*}" || return 0
    [ "$h_sup" != no ] || h_sweep_of "$1" "$h_z" f
    h_st=finished h_proof=record
}

# h_proven DIRECTORY: what proves that an execution never ran and never will is on disk before it is told; else h_st is `unknown`.
h_proven() {
    h_field "$h_r_finish" reason
    h_z=$h_val
    h_field "$h_r_start" token
    h_tmp=$1/finish
    [ -e "$h_tmp" ] || h_tmp=$1/f.$h_val
    case $h_st:$h_z in
        fenced:*) h_sync "$1/start" "$1" "${1%/*}" ;;
        finished:not-started) h_sync "$1/start" "$h_tmp" "$1" "${1%/*}" ;;
    esac || h_st=unknown h_proof=sync
}

# h_close REASON: we have the gate and will not run.
h_close() {
    h_y=$1
    if h_record "$h_dir/go" go; then
        h_field "$h_rec" by
        [ "$h_val" != front ] || h_y=sync
    elif [ "$1" = cancel ] && [ ! -e "$h_dir/go" ]; then
        h_y=space
    fi
    h_now
    h_not_started "$h_id" "$h_token"
    h_put "$h_rec$h_nl" 1<>"$h_dir/f.$h_token"
    # where the other name cannot be made, readers find the record under this one
    ln "$h_dir/f.$h_token" "$h_dir/finish" || [ -e "$h_dir/finish" ] || h_room=
    h_sync "$h_dir/start" "$h_dir/finish" "$h_dir" "${h_dir%/*}"
    h_say "not-started reason=$h_y"
}

# h_not_started ID TOKEN: h_rec is the finish of a start that was closed. There is no status; the field is 125 and counts for nothing.
h_not_started() {
    h_rec="1 finish id=$1 store=$h_sid token=$2 status=125 raw=- reason=not-started signal=- verify=- out=0 err=0 out_complete=yes"
    h_rec="$h_rec err_complete=yes oom=- survivors=0 timeout_requested=no cancel_requested=no t0=$h_wall t1=$h_wall up0=$h_up up1=$h_up end"
}
