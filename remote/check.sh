# shellcheck shell=sh
# check.sh: a question asked by running a harmless command. It leaves no marker.

h_check() {
    exec 9>&2 2>/dev/null
    h_begun=no
    h_umask_now
    if ! h_request || [ -z "$h_s_command" ]; then
        h_trail "error reason=request"
        return
    fi
    h_cwd=
    [ -z "$h_s_cwd" ] || eval "$h_s_cwd"
    h_sleepm=whole
    ! sleep 0.01 || h_sleepm=part
    h_begin started
    h_check_run
    h_status "$h_rc"
    h_trail "check status=$h_val"
}

# h_check_run: h_rc is the status. The limit is kept by a process that knows the command's own.
h_check_run() {
    h_watcher=
    if [ -n "$h_q_timeout" ]; then
        {
            h_nap "$h_q_timeout"
            h_check_stop
        } </dev/null >/dev/null 9>&- &
        h_watcher=$!
    fi
    (
        exec </dev/null 2>&9 9>&-
        umask "$h_umask"
        if [ -n "$h_lc_set" ]; then LC_ALL=$h_lc; else unset LC_ALL; fi
        eval "$h_s_env"
        [ -z "$h_cwd" ] || CDPATH='' cd -- "$h_cwd" || exit 126
        eval "$h_s_command"
        exec setsid -- "$@"
    )
    h_rc=$?
    h_unwatch
}
