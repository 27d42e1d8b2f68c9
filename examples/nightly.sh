#!/bin/sh
# nightly.sh HOST: the backup of one night, at most once, however often cron calls this. What is printed goes into cron's mail.
set -u
host=$1
night=$(date +%F)

# The key is the night: the first call runs the backup, every later one gets what became of it and runs nothing.
said=$(harness run --key "backup-$night" --reconnect 60 --wait 900 "$host" -- ./backup 2>&1)
code=$?

case $code in
    0) exit 0 ;;   # done, by this call or an earlier one
    121) exit 0 ;; # it still runs; the next call asks again
    123) echo "backup of $host: not started, and that is proven; the next call tries again" ;;
    122) echo "backup of $host: refused before anything was sent" ;;
    120) echo "backup of $host: NOT KNOWN whether it ran: do not run it by hand; the next call asks again, and so does: harness recover" ;;
    125) echo "backup of $host: a defect of the harness; what was sent is in its journal" ;;
    # The backup's own number. This key never runs again: whoever repaired the cause starts another with a key of its own.
    *) echo "backup of $host: failed with exit status $code; after the repair: harness run --key backup-$night-2 $host -- ./backup" ;;
esac
echo "$said"
exit $code
