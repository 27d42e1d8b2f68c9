# shellcheck shell=sh
#@ all super
# shellcheck disable=SC3045 # ulimit -c: every shell of the matrix has it
# command.sh: runs the command with its streams drained by processes of their own, and finds the end of its output.

# h_command_run: returns when the command has ended; h_raw is what `$?` held, h_complete_out and h_complete_err are set by h_collect.
h_command_run() {
    [ -z "$h_q_timeout" ] || h_watch "$h_q_timeout" timeout
    h_launch "$h_s_command" "$h_in" "$h_dir/o.$h_token" "$h_dir/e.$h_token"
    # the drainers come to their end now. Until here the streams were open for all who need them, whoever had died
    h_living "$h_drainer_out" && h_living "$h_drainer_err" || { h_more && h_mend; }
    exec 3>&- 4>&-
    h_raw=$h_rc
    h_now
    h_t1=$h_wall h_up1=$h_up
    [ -z "$h_q_timeout" ] || h_unwatch
    h_collect
}

# h_tick: a process that says `t` to run.sh from time to time, and `late` to us for the first two seconds. It ends with us; until then it looks
# after the drainers. (All redirections of processes in the background are made by exec inside: some shells keep what a redirection from outside
# replaces, and with it the channel, open.)
h_tick() {
    h_x=148
    [ "$h_sleepm" = part ] || h_x=30
    h_put "sync $h_x$h_nl"
    {
        exec </dev/null 3>&- 4>&- 7>&-
        trap : PIPE
        # off the way of the command: how many processes were killed for memory before it
        h_oom_now
        h_put "oom $h_val $h_oom_path$h_nl" >&6
        h_n=0 h_failed=0 h_pause=0.05
        [ "$h_sleepm" = part ] || h_pause=1
        while h_tick_nap && [ "/proc/$h_super/fd/7" -ef "$h_dir/a.$h_token" ]; do
            h_n=$((h_n + 1))
            h_living "$h_drainer_out" || h_again out o
            h_living "$h_drainer_err" || h_again err e
            [ "$h_n" -gt 30 ] || h_put "late -$h_nl" >&6
            # without a channel only the drainers need us
            h_put "t$h_nl" || [ "$h_n" -le 30 ] || h_pause=5
            case $h_n:$h_pause in 20:0*) h_pause=0.1 ;; 40:0*) h_pause=0.25 ;; esac
        done
    } &
    h_ticker=$!
}

# h_tick_nap: who kills the sleep gets a tick early. A sleep that fails always is replaced by what takes a second; 1 where nothing does.
h_tick_nap() {
    sleep "$h_pause" && { h_failed=0; return 0; }
    h_failed=$((h_failed + 1))
    [ "$h_failed" -gt 3 ] || return 0
    [ "$h_failed" -gt 4 ] || h_put "sync $((h_n + 30))$h_nl"
    h_idle || [ "$h_failed" -lt 100 ]
}

# h_living PID: whether a helper of this run is alive: it holds the FIFO of our words.
h_living() {
    [ "/proc/$1/fd/6" -ef "$h_dir/v.$h_token" ]
}

# h_again NAME LETTER: a drainer that is gone while the supervisor still holds the stream was killed: there is another one, and we say so.
h_again() {
    [ "/proc/$h_super/fd/3" -ef "$h_dir/o.$h_token" ] && h_more && h_redrain "$1" "$2" || return 0
    eval "h_put \"new $1 \$h_drainer_$1\$h_nl\"" >&6
}

# h_drain NAME FD whole|part: a process that copies a FIFO into a file until the last writer is gone, and says then that it was whole, or that
# bytes may be missing. When the file cannot take more, it reads on and throws away: neither our disk nor our helper ends the command. It
# outlives us and holds nothing that says we live. As FD is open for writing, too, it waits for nobody while it opens its end.
h_drain() {
    {
        exec <"/proc/self/fd/$2" >/dev/null 3>&- 4>&- 7>&-
        h_how=$3
        [ "$h_how" = whole ] || h_last_reader
        until cat >>"$h_dir/$1"; do
            # killed: bytes that it held are lost, those that come are not
            [ $? -gt 128 ] && [ "$h_how" != partpartpart ] || { cat >/dev/null; h_how=part; break; }
            h_how=${h_how#whole}part
        done
        [ "$h_how" = whole ] || h_how=part
        h_put "$1 $h_how$h_nl" >&6
    } &
    eval "h_drainer_$1=\$!"
}

# h_launch CODE IN OUT ERR: the command in a session of its own, in the foreground: in the background it could not be interrupted.
# The redirections stand inside, so that no word of this shell about a signal reaches the command's stderr. h_rc is its status.
h_launch() {
    (
        h_stat self
        if [ "$h_pid" = "$h_super" ]; then
            # ksh93 has not forked yet; setting a limit to what it is makes it
            ulimit -c "$(ulimit -c)"
            h_stat self
        fi
        h_put "$h_pid $h_began $h_nl" >"$h_dir/j.$h_token"
        exec <"$2" >"$3" 2>"$4" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
        umask "$h_umask"
        h_locale
        eval "$h_s_env"
        HARNESS_EXECUTION_ID=$h_id
        export HARNESS_EXECUTION_ID
        [ -z "$h_cwd" ] || CDPATH='' cd -- "$h_cwd" || exit 126
        eval "$1"
        h_there "$1" || { h_put "sh: $1: not found$h_nl" >&2; exit 127; }
        exec "$h_setsid" -- "$@"
    )
    h_rc=$?
}

# h_there PROGRAM: whether there is such a file. A builtin is none: several words are no line for a shell.
h_there() {
    case $1 in */*) [ -e "$1" ]; return ;; esac
    IFS=:
    for h_x in $PATH; do
        [ ! -e "${h_x:-.}/$1" ] || return 0
    done
    return 1
}

# h_oom_now: h_val is how many processes of this control group the kernel has killed for memory, as the file h_oom_path tells; `-` where none does
# (the older kind of control groups costs too many bytes to read).
h_oom_now() {
    h_val=- h_oom_path=
    [ -e /sys/fs/cgroup/cgroup.controllers ] || return 0
    IFS=: read -r h_x h_y h_z </proc/self/cgroup
    [ "$h_x:$h_y" = 0: ] || return 0
    for h_x in "/sys/fs/cgroup$h_z/memory.events" /sys/fs/cgroup/memory.events; do
        h_oom_file "$h_x"
        [ "$h_val" = - ] || return 0
    done
}

h_oom_file() {
    [ -r "$1" ] || return 0
    h_oom_path=$1
    while read -r h_x h_y; do
        [ "$h_x" != oom_kill ] || h_val=$h_y
    done <"$1"
}
