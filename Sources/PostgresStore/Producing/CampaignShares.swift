package import QueueCore

/// The shares of a campaign: variants of its message, and a holdout (docs/variants.md).
package struct CampaignShares: Sendable {
    /// Another message for a share of the devices.
    package struct Variant: Sendable {
        package let name: String
        /// More than 0 and less than 1.
        package let fraction: Double
        /// JSON, sent byte for byte.
        package let payload: String

        package init(name: String, fraction: Double, payload: String) {
            self.name = name
            self.fraction = fraction
            self.payload = payload
        }

        /// The variant as `pushq.start_campaign` takes it. A name contains no characters that JSON escapes.
        fileprivate var json: String { #"{"name":"\#(name)","share":\#(fraction),"payload":\#(payload)}"# }
    }

    package var variants: [Variant]
    /// The fraction of the devices that gets nothing; nil: none.
    package var holdout: Double?

    /// No shares by default: every device gets the same message.
    package init(variants: [Variant] = [], holdout: Double? = nil) {
        self.variants = variants
        self.holdout = holdout
    }

    /// The variants as `pushq.start_campaign` takes them; nil if there are none.
    package var json: String? {
        variants.isEmpty ? nil : "[\(variants.map(\.json).joined(separator: ","))]"
    }

    var parameters: Parameters { ["variants": .text(json), "holdout": .float8(holdout)] }
}

extension Statement {
    /// The shares of a campaign with their counts (migrations/functions/shares.sql).
    static let campaignShares = Statement(
        "campaign_shares",
        #"""
        select share, fraction, total, waiting, delivered, rejected, failed, suppressed, expired, cancelled, unknown,
               retried
        from pushq.show_shares($queue, $root)
        """#)
}

/// One share of a campaign, and what has become of its recipients.
package struct ShareSummary: Sendable {
    /// The name of a variant, `payload` or `holdout`.
    package let name: String
    /// Its fraction of the devices.
    package let fraction: Double
    /// Recipients in jobs so far; of the holdout, the devices held out so far.
    package let total: Int
    package let waiting: Int
    package let tally: OutcomeTally

    fileprivate init(_ row: Row) {
        name = row.text("share")
        fraction = row.float8("fraction")
        total = row.count("total")
        waiting = row.count("waiting")
        tally = OutcomeTally(row)
    }
}

extension PostgresConnection {
    /// The shares of a campaign, the payload first and the holdout last; empty for a campaign without shares.
    package func shares(ofCampaign id: Int64, inQueue queue: QueueName) async throws(PostgresError) -> [ShareSummary] {
        try await execute(.campaignShares, ["queue": .queue(queue), "root": .int8(id)]).map(ShareSummary.init)
    }
}
