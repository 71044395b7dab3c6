#!/bin/bash
# The campaign of the evening, as a cron job: sends one message to the devices that fit, waits until each of them has an
# outcome, and prints the figures, which cron mails.
#
#     PUSHQ_DATABASE_URL=postgres://producer@db.example.com/push
#     QUEUE=acme/com.acme.shop/production
#     PAYLOAD=/etc/pushq/nightly.json
#     30 18 * * *  /usr/local/bin/nightly.sh
#
# It may be started twice, killed and started again: the key names the day, one key starts one campaign, and a campaign
# sends to each device once. What was started goes on in the workers, whatever becomes of this script.
#
# Exit code: 0 when every recipient has an outcome; 1 if the campaign was cancelled or has paused itself; 3 if it takes
# longer than TIMEOUT, which stops the waiting alone; another one if nothing was started, and then a line says why.
set -euo pipefail

: "${QUEUE:?set it to the queue: tenant/app/environment}"
: "${PAYLOAD:?set it to the file with the message, JSON}"
# Whom it is for (docs/audiences.md).
filter=${FILTER:-"seen within 30 days"}
# Nobody is woken by what could not be sent in the evening.
send_by=$(date --date "${SEND_BY:-today 22:00}" --iso-8601=seconds)

exec pushq campaign "$QUEUE" --key "nightly $(date +%F)" --payload "$PAYLOAD" --filter "$filter" --send-by "$send_by" \
    --stop-at-errors 5% --wait --timeout "${TIMEOUT:-3h}"
