# shellcheck shell=sh
#@ all
# caps.sh: finds out, once a boot, what this host can do. A host that cannot keep the promises is refused by name.

# cksum is not among them: Debian's static busybox comes without it, and install.sh takes sha256sum there.
h_needed='cat chmod date dd grep head ln mkdir mkfifo mv od rm sed setsid sh sleep sort sync tail tr wc'

# h_programs: whether the host runs a program for us now. A limit on processes or open files is another thing than a program that is not there,
# and ends some shells where they fork for themselves.
h_programs() {
    ! command eval 'cat </dev/null >/dev/null' || return 0
    h_why=tools-cat h_y=$PATH:
    while [ -n "$h_y" ]; do
        [ ! -x "${h_y%%:*}/cat" ] || h_why=programs
        h_y=${h_y#*:}
    done
    return 1
}

# h_caps_make: tries everything out in the store and writes `caps`. 1 with h_why where the store cannot be used.
h_caps_make() {
    h_programs || return 1
    for h_x in $h_needed; do
        command -v "$h_x" >/dev/null 2>&1 || [ "$h_x" = sync ] || { h_why=tools-$h_x; return 1; }
    done
    h_random || { h_why=tools-random; return 1; }
    h_tmp=$h_store/t.$h_val
    mkdir "$h_tmp" 2>/dev/null || { h_explain "$h_store"; return 1; }
    h_caps_try
    h_rc=$?
    rm -rf "$h_tmp"
    [ "$h_rc" -eq 0 ] || return 1
    h_where
    h_random
    # a run reads the first line only: every byte costs it a system call
    h_caps="sync=$h_syncm shared=$h_shared fifo=$h_fifom sleep=$h_sleepm epoch=$h_epoch setsid=$h_setsid sha=$h_sham$h_nl"
    h_caps="${h_caps}boot=$h_boot pidns=$h_ns live=fifo fs=$h_fs volatile=$h_volatile eight=$h_eight"
    h_x=$h_store/c.$h_val
    h_write "$h_x" "$h_caps" || { rm -f "$h_x"; return 1; }
    # whoever asks after a power cut needs it
    h_sync "$h_x" || { rm -f "$h_x"; h_why=sync; return 1; }
    mv "$h_x" "$h_store/caps" || { h_explain "$h_store"; return 1; }
    h_caps_read && h_caps_rest
}

# h_caps_rest: the second line, too.
h_caps_rest() {
    { read -r h_x && IFS= read -r h_y; } <"$h_store/caps" || return 1
    h_caps="$h_caps$h_y "
}

# h_caps_fresh: whether the caps on the disk were found in this boot and pid namespace, by tools that are still there.
h_caps_fresh() {
    h_caps_read && h_caps_rest || return 1
    h_where
    h_field "$h_caps" boot
    [ "$h_val" = "$h_boot" ] && [ "$h_boot" != - ] || return 1
    h_field "$h_caps" pidns
    [ "$h_val" = "$h_ns" ] || return 1
    command -v "$h_setsid" >/dev/null 2>&1 || return 1
    case $h_syncm in sync | global) command -v sync ;; *) command -v "$h_syncm" ;; esac >/dev/null 2>&1
}

h_caps_try() {
    h_put x >"$h_tmp/a" || { h_explain "$h_store"; return 1; }
    ln "$h_tmp/a" "$h_tmp/b" 2>/dev/null && [ "$h_tmp/a" -ef "$h_tmp/b" ] && ! ln "$h_tmp/a" "$h_tmp/b" 2>/dev/null ||
        { h_why=no-hardlinks; return 1; }
    mkfifo "$h_tmp/f" 2>/dev/null && [ -p "$h_tmp/f" ] || { h_why=no-fifo; return 1; }
    [ -r /proc/self/stat ] && [ -r /proc/uptime ] || { h_why=tools-proc; return 1; }
    h_caps_sync || { h_why=sync; return 1; }
    h_caps_fs
    h_caps_fifo
    h_caps_tools
}

# h_caps_sync: the strongest method that works for a file and a directory. `sync` without regard to its arguments is `global`: stronger, slower.
h_caps_sync() {
    h_syncm=sync
    if h_sync "$h_tmp/a" "$h_tmp"; then
        ! sync "$h_tmp/none" 2>/dev/null || h_syncm=global
        return 0
    fi
    h_syncm=fsync
    command -v fsync >/dev/null 2>&1 && h_sync "$h_tmp/a" "$h_tmp" && return 0
    h_syncm='dd'
    h_sync "$h_tmp/a" "$h_tmp"
}

# h_caps_fs: the store's file system. `shared=no`: no other machine can have it; `layer`: no other container either; else unknown.
h_caps_fs() {
    h_fs=$(stat -f -c %T "$h_store" 2>/dev/null)
    # busybox knows only few of them by name
    [ "$h_fs" != UNKNOWN ] || case $(stat -f -c %t "$h_store" 2>/dev/null) in
        794c7630) h_fs=overlayfs ;;
        61756673) h_fs=aufs ;;
        9123683e) h_fs=btrfs ;;
        2fc12fc1) h_fs=zfs ;;
        f2f52010) h_fs=f2fs ;;
        ca451a4e) h_fs=bcachefs ;;
        24051905) h_fs=ubifs ;;
    esac
    case $h_fs in '' | *[!A-Za-z0-9/._-]*) h_fs=- ;; esac
    h_volatile=no h_shared=unknown
    case $h_fs in
        tmpfs | ramfs) h_volatile=yes h_shared=no ;;
        overlayfs | overlay | aufs) h_shared=layer ;;
        ext* | xfs | btrfs | zfs | f2fs | reiserfs | jfs | bcachefs | ubifs | jffs2) h_shared=no ;;
    esac
}

# h_caps_fifo: how to ask whether a FIFO is open elsewhere: GNU dd, or an open that waits under `timeout`.
h_caps_fifo() {
    h_fifom='dd'
    dd if=/dev/null of="$h_tmp/a" oflag=nonblock conv=nocreat,notrunc 2>/dev/null || h_fifom=timeout
}

h_caps_tools() {
    command -v timeout >/dev/null 2>&1 || [ "$h_fifom" = dd ] || { h_why=tools-timeout; return 1; }
    h_sleepm=whole h_epoch=-
    ! sleep 0.01 2>/dev/null || h_sleepm=part
    h_x=$(date +%s)
    read -r h_up h_y </proc/uptime || h_up=-
    ! h_is number "$h_x" || [ "$h_up" = - ] || h_epoch=$((h_x - ${h_up%.*}))
    h_setsid=$(command -v setsid)
    case $h_setsid in '' | *[!A-Za-z0-9/._-]*) h_why=tools-setsid; return 1 ;; esac
    h_sham=-
    for h_x in sha256sum shasum openssl; do
        [ "$h_sham" != - ] || ! command -v "$h_x" >/dev/null 2>&1 || h_sham=$h_x
    done
    h_caps_eight
}

# h_caps_eight: whether this shell keeps every byte in a variable (yash drops what its locale does not know).
h_caps_eight() {
    h_eight=no
    printf '\377\200\n' >"$h_tmp/e"
    { IFS= read -r h_x; } <"$h_tmp/e"
    [ "${#h_x}" -ne 2 ] || h_eight=yes
}

# h_random: h_val is 32 random hex digits from the kernel.
h_random() {
    { read -r h_val; } 2>/dev/null </proc/sys/kernel/random/uuid || return 1
    h_x=$h_val h_val=
    while :; do
        case $h_x in *-*) h_val=$h_val${h_x%%-*} h_x=${h_x#*-} ;; *) break ;; esac
    done
    h_val=$h_val$h_x
    h_is hex "$h_val"
}
