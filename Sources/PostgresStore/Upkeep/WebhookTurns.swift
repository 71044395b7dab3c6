extension Statement {
    fileprivate static let takeWebhook = Statement(
        "take_webhook",
        #"""
        select tenant_id, tenant, turn, url, sealed, former_sealed, first, last, message, failures, sent_at,
               in_doubt
        from pushq.take_webhook($lease::interval, $most::int, $keys::bytea[], $even_in_doubt)
        """#)
    fileprivate static let webhookAccepted = Statement(
        "webhook_accepted",
        #"""
        select written, coalesce(had_failed, false) as had_failed
        from pushq.webhook_accepted($tenant_id, $turn, $upto)
        """#)
    fileprivate static let webhookFailed = Statement(
        "webhook_failed",
        "select pushq.webhook_failed($tenant_id, $turn, $known, $problem, $pause::interval) as failures")
}

/// A message that this worker must post to a webhook.
package struct WebhookTurn: Sendable {
    package let tenantID: Int32
    package let tenant: String
    /// The number under which the outcome is recorded.
    package let turn: Int64
    package let url: String
    package let sealed: [UInt8]
    package let formerSealed: [UInt8]?
    /// The message contains the reports behind this cursor …
    package let first: Int64
    /// … up to this one.
    package let last: Int64
    /// The message as JSON: the only copy of it while it is under way.
    package let message: [UInt8]
    /// The number of failed tries in a row before this one.
    package let failures: Int
    /// The database's time, in seconds since 1970.
    package let sentAt: Int64
    /// Whether the receiver may not answer: the last try failed, or it has never accepted a message.
    package let isInDoubt: Bool
}

extension PostgresConnection {
    /// Takes the webhook that is due and has waited the longest, with up to `limit` reports to send. Nil if there is
    /// none.
    /// - Parameters:
    ///   - lease: how long the webhook is reserved for this worker, unless an outcome is noted earlier.
    ///   - keys: a webhook whose secret they do not open is left to other workers.
    ///   - evenInDoubt: also one whose receiver may not answer.
    package func takeWebhook(
        lease: Duration, atMost limit: Int, opening keys: MasterKeys, evenInDoubt: Bool = true
    ) async throws(PostgresError) -> WebhookTurn? {
        let parameters: Parameters = [
            "lease": .interval(lease), "most": .int4(Int32(limit)), "keys": .byteaArray(keys.names.map(\.bytes)),
            "even_in_doubt": .bool(evenInDoubt),
        ]
        return try await execute(.takeWebhook, parameters).first.map { row in
            WebhookTurn(
                tenantID: row.int4("tenant_id"), tenant: row.text("tenant"), turn: row.int8("turn"),
                url: row.text("url"), sealed: row.bytes("sealed"), formerSealed: row.optionalBytes("former_sealed"),
                first: row.int8("first"), last: row.int8("last"), message: Array(row.text("message").utf8),
                failures: Int(row.int4("failures")),
                sentAt: row.int8("sent_at"), isInDoubt: row.bool("in_doubt"))
        }
    }

    /// Notes that the receiver accepted the message. Returns whether the tries before this one had failed. Writes
    /// nothing if another worker has taken the webhook meanwhile.
    package func noteAccepted(_ turn: WebhookTurn) async throws(PostgresError) -> Bool {
        try await execute(
            .webhookAccepted,
            ["tenant_id": .int4(turn.tenantID), "turn": .int8(turn.turn), "upto": .int8(turn.last)]
        ).one().bool("had_failed")
    }

    /// Notes that the receiver did not accept the message, which is tried again after `pause`, or at once if the
    /// webhook was set again meanwhile. Returns the number of failures in a row; nil if another worker has taken the
    /// webhook meanwhile, or it was deleted.
    package func noteFailed(
        _ turn: WebhookTurn, problem: String, pause: Duration
    ) async throws(PostgresError) -> Int? {
        let parameters: Parameters = [
            "tenant_id": .int4(turn.tenantID), "turn": .int8(turn.turn), "known": .int4(Int32(turn.failures)),
            "problem": .text(problem), "pause": .interval(pause),
        ]
        return try await execute(.webhookFailed, parameters).one().optionalInt4("failures").map(Int.init)
    }
}
