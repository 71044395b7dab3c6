package import FoundationEssentials
package import QueueCore

extension Statement {
    /// What a campaign would be (migrations/functions/preview_campaign.sql).
    static let previewCampaign = Statement(
        "preview_campaign",
        #"""
        select recipients, inactive, unknown, credential, credential_expires_at, rate, speed, problems
        from pushq.preview_campaign(
          $queue, $key, push_type => case pushq.message_kind($push_type, $payload::text::json)
                                     when 'liveactivity-start' then 'liveactivity-start' else $push_type end,
          filter => $filter)
        """#)

    static let previewListCampaign = Statement(
        "preview_list_campaign",
        #"""
        select recipients, inactive, unknown, credential, credential_expires_at, rate, speed, problems
        from pushq.preview_campaign(
          $queue, $key, push_type => $push_type, tokens => array(select token from device_stage where active))
        """#)
}

/// What a campaign would be if it were started now.
package struct CampaignPreview: Sendable {
    package let recipients: Int
    /// Devices among the tokens of a list that are inactive; of another audience those that are left out as inactive.
    package let inactive: Int
    /// Tokens of a list that are no devices yet.
    package let unknown: Int
    package let credential: String?
    package let credentialExpiresAt: Date?
    /// Pushes per second that the queue's limits allow; nil: no limit.
    package let rate: Double?
    /// What the queue's last campaign came to; nil: there was none.
    package let speed: Double?
    /// Why nothing, or not everything, would be sent now.
    package let problems: [String]
}

extension PostgresConnection {
    /// What a campaign to all active devices would be, or to those that a filter holds for, or one to the tokens of a
    /// file. Nothing is written: the tokens are staged in a transaction that is rolled back.
    package func preview(
        _ message: MessageDraft, toDevicesWhere filter: String? = nil, orIn file: DeviceFile?, key: String,
        inQueue queue: QueueName, progress: (Int) -> Void = { _ in }
    ) async throws -> CampaignPreview {
        let parameters: Parameters = [
            "queue": .queue(queue), "key": .text(key), "push_type": .text(message.pushType.rawValue),
        ]
        guard let file else {
            let all = parameters + ["payload": .text(message.payload), "filter": .text(filter)]
            return CampaignPreview(try await execute(.previewCampaign, all, within: Self.fileLimit).one())
        }
        var preview: CampaignPreview?
        do {
            try await transaction(within: Self.fileLimit) {
                var reader = DeviceFileReader(file: file.name)
                _ = try await stageDevices(from: file, by: &reader, progress: progress)
                preview = CampaignPreview(
                    try await execute(.previewListCampaign, parameters, within: Self.fileLimit).one())
                throw NothingIsWritten()
            }
        } catch is NothingIsWritten {}
        return preview!
    }

    /// Ends the transaction of a preview.
    private struct NothingIsWritten: Error {}
}

extension CampaignPreview {
    fileprivate init(_ row: Row) {
        self.init(
            recipients: row.count("recipients"), inactive: row.count("inactive"), unknown: row.count("unknown"),
            credential: row.optionalText("credential"), credentialExpiresAt: row.optionalTime("credential_expires_at"),
            rate: row.optionalFloat8("rate"), speed: row.optionalFloat8("speed"), problems: row.textArray("problems"))
    }
}
