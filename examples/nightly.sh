#!/bin/bash
# An evening campaign as a cron job: sends one message to the devices that match a filter, waits until each recipient has
# an outcome, and prints the figures, which cron mails.
#
#     PUSHQ_DATABASE_URL=postgres://producer@db.example.com/push?sslmode=verify-full
#     QUEUE=acme/com.acme.shop/production
#     PAYLOAD=/etc/pushq/nightly.json
#     30 18 * * *  /usr/local/bin/nightly.sh
#
# Before the first evening, run it with --dry-run: that sends nothing, and shows how many devices it would reach.
#
# You may run it twice, or kill it and run it again: the key contains the date, one key starts one campaign, and a
# campaign sends to each device once. If this script ends early, the workers finish the campaign. A campaign that has
# reached nobody has used its key, too: once FILTER is right, start another one with KEY="nightly 2026-11-25 again".
# Before noon it starts nothing, unless NOT_BEFORE is another time.
#
# Exit code: 0 if every recipient has an outcome; 1 if the campaign was cancelled, has paused itself, has reached nobody,
# has ended with too many bad answers or could not be started; 2 if the command line is wrong; 3 if it takes longer than
# TIMEOUT, which ends only the waiting. A line says why.
set -euo pipefail
PATH=$PATH:/usr/local/bin  # cron's own is /usr/bin:/bin

# A misspelt --dry-run must not start the campaign.
if [[ $# -gt 0 && $* != --dry-run ]]; then
    echo 'usage: nightly.sh [--dry-run]' >&2
    exit 2
fi

: "${QUEUE:?set it to the queue: tenant/app/environment}"
: "${PAYLOAD:?set it to the file with the message, JSON}"
# The devices that it is for (docs/audiences.md): those that were used lately, and those that were imported without the
# time at which they were seen last.
filter=${FILTER:-"seen is missing or seen within 30 days"}
# Pushes that could not be sent by then expire, so that they wake nobody at night.
send_by=$(date --date "${SEND_BY:-today 22:00}" --iso-8601=seconds)

mode=(--wait --timeout "${TIMEOUT:-3h}")
if [[ $* == --dry-run ]]; then
    mode=(--dry-run)
elif (( $(date +%s) < $(date --date "${NOT_BEFORE:-today 12:00}" +%s) )); then
    # After midnight, the same call would start the campaign of the next evening, at night.
    echo "nightly: it is too early for this evening's campaign. Yesterday's goes on by itself; to look at it:" \
        "pushq-admin campaign show $QUEUE \"nightly $(date --date yesterday +%F)\"" >&2
    exit 1
fi

exec pushq campaign "$QUEUE" --key "${KEY:-nightly $(date +%F)}" --payload "$PAYLOAD" --filter "$filter" \
    --send-by "$send_by" --stop-at-errors 5% "${mode[@]}"
