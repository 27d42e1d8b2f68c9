# shellcheck shell=sh
#@ all super
# host.sh: what the host tells: clocks, processes, randomness, and whether bytes are on its disk. Without a fork where the kernel tells.

# h_sync FILE... DIRECTORY...: returns 0 when all are on disk. The method was proven at the contact.
h_sync() {
    case $h_syncm in
        sync | global) sync "$@" ;;
        fsync) fsync "$@" ;;
        dd)
            for h_x in "$@"; do
                if [ -d "$h_x" ]; then
                    dd if=/dev/null conv=fsync 1<"$h_x" || return 1
                else
                    dd if=/dev/null conv=fsync,notrunc 1<>"$h_x" || return 1
                fi
            done
            ;;
        *) return 1 ;;
    esac 2>/dev/null
}

# h_now: h_up is seconds since boot, h_wall seconds since 1970 (from the offset that the contact measured). No fork.
h_now() {
    h_up=- h_wall=-
    read -r h_up h_x </proc/uptime || h_up=-
    [ "$h_up" = - ] || [ "$h_epoch" = - ] || h_wall=$((h_epoch + ${h_up%.*})).${h_up#*.}
}

# h_where: h_boot is the boot id, h_ns names the pid namespace by the start time of its first process.
h_where() {
    h_boot=- h_ns=-
    { read -r h_boot; } </proc/sys/kernel/random/boot_id || h_boot=-
    h_stat 1 && h_ns=$h_began
    return 0
}

# h_stat PID: h_pid and h_began (ticks since boot) of a process; 1 where there is none. The name in the line may hold anything.
h_stat() {
    h_began=-
    { read -r h_x; } </proc/"$1"/stat || return 1
    h_pid=${h_x%% *}
    # shellcheck disable=SC2086 # words are wanted
    set -- ${h_x##*\) }
    [ $# -ge 20 ] || return 1
    h_state1=$1 h_began=${20}
}

# h_umask_now: h_umask is the caller's; the kernel tells without a fork where it can.
h_umask_now() {
    h_umask=
    while read -r h_x h_y; do
        case $h_x in Umask:) h_umask=$h_y; break ;; PPid:) break ;; esac
    done </proc/self/status
    [ -n "$h_umask" ] || h_umask=$(umask)
}

# h_idle: waits about a second where `sleep` cannot be had. 1 where no second has passed.
h_idle() {
    h_now
    h_was=${h_up%.*}
    timeout 1 tail -f /dev/null >/dev/null
    h_now
    [ "${h_up%.*}" != "$h_was" ]
}
