#!/bin/sh
# deploy.sh VERSION HOST...: ./deploy VERSION on every host, once on each, side by side.
# Stopped in the middle, or not sure how it ended? Call it again with the same words: finished hosts answer from the journal, running ones are
# followed, those that proved not to have started are run. DEPLOY_RECONNECT: for how many seconds a lost host is tried again.
set -u
version=$1
shift

deploy() { harness run --key "deploy-$version" --reconnect "${DEPLOY_RECONNECT:-120}" "$@" -- ./deploy "$version"; }

deploy "$@"
code=$?
if [ $code -eq 120 ]; then
    # On some host the end is not known. Ask (this runs nothing), then go on: the key keeps every host from a second deploy.
    harness recover >&2
    deploy "$@"
    code=$?
fi

case $code in
    0) echo "deploy $version: done on every host" >&2 ;;
    120) echo "deploy $version: still not known on some host; nothing was repeated. harness list says where; call this again when it is back" >&2 ;;
    121) echo "deploy $version: it still runs; call this again to wait for its end" >&2 ;;
    *) echo "deploy $version: not done everywhere ($code). A host that was away: call this again. One where ./deploy failed: repair, then a new version" >&2 ;;
esac
exit $code
