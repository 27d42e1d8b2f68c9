# shellcheck shell=sh
#@ all more
# verify.sh: ends that are not the ordinary one: a verify command, a start that is closed without running.

# h_verify_run: h_verify is the status of the verify command, `-` if it was stopped.
h_verify_run() {
    h_now
    h_write "$h_dir/b.$h_token" "1 ended id=$h_id store=$h_sid token=$h_token raw=$h_raw out=$h_size_out err=$h_size_err wall=$h_wall up=$h_up end"
    ln "$h_dir/b.$h_token" "$h_dir/ended"
    h_sync "$h_dir/ended" "$h_dir"
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
    h_not_started
    h_put "$h_rec$h_nl" 1<>"$h_dir/f.$h_token"
    ln "$h_dir/f.$h_token" "$h_dir/finish"
    h_sync "$h_dir/finish" "$h_dir"
    # drainers wait at the FIFOs: they are let go, and find no name once we have closed them
    exec 3<>"$h_dir/o.$h_token" 4<>"$h_dir/e.$h_token"
    h_say "not-started reason=$h_y"
}

# h_not_started: h_rec is the finish of a start that was closed. There is no status; the field is 125 and counts for nothing.
h_not_started() {
    h_rec="1 finish id=$h_id store=$h_sid token=$h_token status=125 raw=- reason=not-started signal=- verify=- out=0 err=0 out_complete=yes"
    h_rec="$h_rec err_complete=yes oom=- survivors=0 timeout_requested=no cancel_requested=no t0=$h_wall t1=$h_wall up0=$h_up up1=$h_up end"
}
