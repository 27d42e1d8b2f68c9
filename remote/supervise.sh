# shellcheck shell=sh
#@ all super
# supervise.sh: the supervisor of one run. It reads the request, wins the gate, makes it durable, runs the command, records its end.
# stdin: the channel. stdout: the pipe to run.sh. It has its own session, and no signal of ours or of a lost pipe stops it.

h_supervise() {
    # a handler, not "ignore": what is ignored stays ignored in the command
    trap : HUP INT QUIT TERM PIPE
    h_put "hi$h_nl"
    h_umask_now
    umask 077
    h_prepare
    h_win
    h_command_run
    h_finish
    h_leave
}

# h_say TRAILER: the verdict of a run that does not run; ends the supervisor and removes what it made.
h_say() {
    h_put "say $1$h_nl"
    [ -z "$h_mine" ] || h_sweep
    exit 0
}

h_refuse() {
    [ "$1" != store-changed ] || h_say store-changed
    h_say "refused reason=$1"
}

# h_prepare: everything before the gate. Comes back only if this dispatch may compete for it.
h_prepare() {
    h_mine='' h_room=f
    h_request || h_refuse request
    [ -n "$h_s_command" ] && [ -n "$h_q_stdin" ] && [ -n "$h_q_store" ] || h_refuse request
    h_is id "$h_id" && h_is witness "$h_witness" && h_is hex "$h_token" || h_refuse request
    h_store_open || h_refuse "$h_why"
    h_has_witness "$h_witness" || h_say store-changed
    ! h_elsewhere "$h_id" "$h_witness" || h_refuse other-witness
    h_dir=$h_store/x/$h_witness/$h_id
    h_stat self
    h_super=$h_pid h_super_began=$h_began
    h_put "in $h_token $h_super $h_dir$h_nl"
    [ -z "$h_q_after$h_q_timeout$h_s_verify" ] || h_more || h_refuse internal
    [ -z "$h_q_after" ] || h_after
    if [ -e "$h_dir/start" ] || [ -L "$h_dir/start" ]; then
        h_more || h_refuse internal
        h_taken
    fi
    h_try
    h_make_dir "$h_dir" || h_refuse "$h_why"
    h_make_files || h_refuse "$h_why"
    exec </dev/null
}

# h_try: what would go wrong between the gate and the command is found out here: a directory, a name that this shell does not export.
h_try() {
    h_cwd=
    [ -z "$h_s_cwd" ] || eval "$h_s_cwd" || h_refuse request
    [ -n "$h_cwd$h_s_env" ] || return 0
    (
        eval "$h_s_env" || exit 3
        [ -z "$h_cwd" ] || CDPATH='' cd -- "$h_cwd" || exit 4
        exit 9
    ) >/dev/null
    case $? in 9) ;; 4) h_refuse cwd ;; *) h_refuse env ;; esac
}

# h_make_files: FIFOs, the input, the room for finish; each under a name with this dispatch's token. 1 with h_why.
h_make_files() {
    h_d=$h_dir h_t=$h_token
    mkfifo "$h_d/o.$h_t" "$h_d/e.$h_t" "$h_d/v.$h_t" "$h_d/a.$h_t" || { h_explain "$h_d"; return 1; }
    # from here on the names with this token are ours to remove; of a token that came twice they are not
    h_mine=yes
    # we hold both ends of the streams: nobody waits for a drainer to open one, nor ends because one is dead
    exec 6<>"$h_d/v.$h_t" 7<>"$h_d/a.$h_t" 3<>"$h_d/o.$h_t" 4<>"$h_d/e.$h_t"
    h_in=/dev/null
    if [ "$h_q_stdin" -gt 0 ]; then
        h_in=$h_d/in.$h_t
        set -C
        head -c "$h_q_stdin" >"$h_in" || { set +C; h_explain "$h_d"; return 1; }
        set +C
        h_size "$h_in"
    fi
    # more than an inode can hold by itself, so that a block is taken; the record is longer and lies in the same block
    h_x='                                                                '
    h_write "$h_d/f.$h_t" "$h_x$h_x$h_x$h_x" || return 1
    # some `head`s say nothing of a full disk; with room left it was the request that was cut
    [ "$h_q_stdin" -eq 0 ] || [ "$h_val" = "$h_q_stdin" ] || { h_why=request; return 1; }
}

# h_win: wins the gate, makes it durable, and takes `go`. Comes back only if the command is to run.
h_win() {
    h_now
    h_where
    h_t0=$h_wall h_up0=$h_up
    h_x=no
    [ -z "$h_s_verify" ] || h_x=yes
    h_y=${h_q_after%% *}
    h_rec="1 start kind=run id=$h_id store=$h_sid witness=$h_witness token=$h_token boot=$h_boot pidns=$h_ns pid=$h_super"
    h_rec="$h_rec began=$h_super_began live=fifo sync=$h_syncm verify=$h_x after=${h_y:--} timeout=${h_q_timeout:--} wall=$h_wall up=$h_up end"
    h_gate "$h_dir" "$h_token" "$h_rec"
    case $? in 1) ! h_more || h_taken; h_refuse internal ;; 2) h_refuse "$h_why" ;; esac
    # helpers start while the disk works
    {
        exec 3>&- 4>&- 7>&-
        h_sync "$h_dir/start" "$h_dir/f.$h_token" "$h_dir" "$h_store/x/$h_witness"
    } &
    h_syncer=$!
    true >"$h_dir/out" 2>"$h_dir/err" || h_no space
    h_drainer_out='' h_drainer_err='' h_killed=
    h_drain out 3 whole
    h_drain err 4 whole
    h_tick
    wait "$h_syncer" || h_no sync
    h_has_witness "$h_witness" && [ -e "$h_dir/start" ] && ! h_elsewhere "$h_id" "$h_witness" || h_no witness
    set -C
    true >"$h_dir/go"
    h_rc=$?
    set +C
    [ "$h_rc" -eq 0 ] || h_no cancel
    h_put "won$h_nl"
}

# h_no REASON: we have the gate and will not run.
h_no() {
    h_more && h_close "$1"
    h_say "state state=unknown"
}

# h_more: reads what a run seldom needs; once, because some shells take seconds to define functions again. 1 where it is not whole.
h_more() {
    [ -z "${h_has_more-}" ] || return 0
    [ -r "$h_bin/$h_sha.more" ] || return 1
    # shellcheck disable=SC1090 # our own text
    . "$h_bin/$h_sha.more"
    h_more_end
}
