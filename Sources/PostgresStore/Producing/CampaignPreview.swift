package import FoundationEssentials
package import QueueCore

extension Statement {
    /// What a campaign would be (migrations/functions/preview_campaign.sql).
    static let previewCampaign = previewCampaign("preview_campaign", audience: "filter => $filter")

    static let previewListCampaign = previewCampaign(
        "preview_list_campaign", audience: "tokens => array(select token from device_stage where active)")

    private static func previewCampaign(_ name: String, audience: String) -> Statement {
        Statement(
            name,
            #"""
            select recipients, inactive, unknown, left_out, in_shares, credential, credential_expires_at, rate, speed,
                   problems, would_expire, done_at, cap, capped,
                   extract(epoch from done_at - greatest($start_at, now()))::float8 as seconds
            from pushq.preview_campaign(
              $queue, $key, \#(audience), push_type => $push_type, payload => $payload::json, priority => $priority,
              expiration => $expiration, collapse_id => $collapse_id, start_at => $start_at, send_by => $send_by,
              max_rate => $max_rate, stop_at_errors => $stop_at_errors, local_time => $local_time,
              if_passed => $if_passed, catch_up => $catch_up, default_zone => $default_zone,
              variants => $variants::json, holdout => $holdout, quiet_hours => $quiet_hours,
              urgent => $urgent)
            """#)
    }
}

extension Statement {
    /// Whom a campaign cannot reach that starts Live Activities; no row if it does not.
    static let previewStarts = Statement(
        "preview_starts",
        #"""
        select p.devices, p.without_token
        from (select pushq.started_type($push_type, $payload::text::json) as activity_type) t
        cross join lateral pushq.preview_starts($queue, t.activity_type, filter => $filter) p
        where t.activity_type is not null
        """#)

    /// What the recipients would get, where that is not the same for all.
    static let previewMessage = Statement(
        "preview_message",
        #"""
        select language, recipients, lacking, too_long, longest, most, sample
        from pushq.preview_message(
          $queue, $payload::text, push_type => $push_type, filter => $filter, start_at => $start_at,
          local_time => $local_time, if_passed => $if_passed, catch_up => $catch_up, default_zone => $default_zone,
          key => $key, variants => $variants::json, holdout => $holdout, share => $share)
        """#)

    static let previewListMessage = Statement(
        "preview_list_message",
        #"""
        select language, recipients, lacking, too_long, longest, most, sample
        from pushq.preview_message(
          $queue, $payload::text, push_type => $push_type,
          tokens => array(select token from device_stage where active), start_at => $start_at,
          local_time => $local_time, if_passed => $if_passed, catch_up => $catch_up, default_zone => $default_zone,
          key => $key, variants => $variants::json, holdout => $holdout, share => $share)
        """#)
}

/// What those recipients would get of a campaign that get one version of its message. Of a variant: those in its share.
package struct VersionPreview: Sendable {
    /// The share of the campaign whose message it is of; nil for the payload itself.
    package let share: String?
    /// The version's language; nil for the default.
    package let language: String?
    package let recipients: Int
    /// Those of them that lack an attribute which has no default.
    package let lacking: Int
    /// Those whose payload would be too long.
    package let tooLong: Int
    /// The longest payload of them in bytes; nil if there is none.
    package let longest: Int?
    /// How long a payload may be.
    package let most: Int
    /// What the first of them gets, or the payload with the defaults of its placeholders.
    package let sample: String
}

/// What a campaign would be if it were started now.
package struct CampaignPreview: Sendable {
    package let recipients: Int
    /// Devices among the tokens of a list that are inactive; of another audience those that are left out as inactive.
    package let inactive: Int
    /// Tokens of a list that are no devices yet.
    package let unknown: Int
    /// Devices that its local time leaves out. They are no recipients.
    package let leftOut: Int
    package let credential: String?
    package let credentialExpiresAt: Date?
    /// Pushes per second that the queue's limits allow; nil: no limit.
    package let rate: Double?
    /// What the queue's last campaign came to; nil: there was none.
    package let speed: Double?
    /// How many could not be sent to in the campaign's time at its rate, or that of the queue's limits; nil: no rate.
    package let wouldExpire: Int?
    /// When all others would have been sent to, at most as fast as `speed`; nil: nobody knows.
    package let doneAt: Date?
    /// How long that is from its start, in seconds.
    package let seconds: Double?
    /// The queue's frequency cap in words, if it holds for the campaign, and how many it would hold back now.
    package let cap: String?
    package let capped: Int?
    /// Why nothing, or not everything, would be sent now, and what the start would refuse.
    package let problems: [String]
    /// Of a campaign with shares, how many of the recipients are in each: the holdout, the payload, the variants.
    package let inShares: [Int]?
    /// What they would get, if that is not the same for all.
    package var versions: [VersionPreview] = []
    /// Of a campaign at a local time, when how many are due.
    package var waves: [WavePreview] = []
    /// How many would wait for the end of their quiet hours, for each such end.
    package var quiet: [QuietPreview] = []
    /// Of one that starts Live Activities, but for one to a file: how many devices are in its audience, and how many of
    /// them have no token with which to start one.
    package var starts: (devices: Int, withoutToken: Int)?
    /// Of a campaign to users of a file, who they are.
    package var users: UserCounts?
}

extension PostgresConnection {
    /// What a campaign to all active devices would be, or to those that a filter holds for, or one to the tokens or
    /// users of a file. Nothing is written: the tokens are staged in a transaction that is rolled back.
    package func preview(
        _ message: MessageDraft, toDevicesWhere filter: String? = nil, orIn file: DeviceFile?, isOfUsers: Bool = false,
        key: String, inQueue queue: QueueName, clock: CampaignClock = CampaignClock(),
        shares: CampaignShares = CampaignShares(), limits: CampaignLimits = CampaignLimits(),
        progress: (Int) -> Void = { _ in }
    ) async throws -> CampaignPreview {
        let parameters: Parameters = ["queue": .queue(queue), "push_type": .text(message.pushType.rawValue)]
        let payload: Parameters = ["payload": .text(message.payload)]
        let payloads = [(nil, message.payload)] + shares.variants.map { ($0.name, $0.payload) }
        let personal = payloads.filter { CampaignMessage.isPersonal($0.1) }
        let times: Parameters = clock.parameters + ["start_at": .time(message.startAt)]
        let ends: Parameters = ["send_by": .time(message.sendBy), "expiration": .int8(message.message.expiration)]
        let inShares: Parameters = shares.parameters + ["key": .text(key)]
        let quiet: Parameters = ["quiet_hours": .text(limits.quietHours), "urgent": .bool(message.isUrgent)]
        let campaign: Parameters =
            ["queue": .queue(queue), "key": .text(key)] + message.checkedParameters + clock.parameters
            + shares.parameters + limits.parameters + ["urgent": .bool(message.isUrgent)]
        guard let file else {
            let filter: Parameters = ["filter": .text(filter)]
            let filtered = parameters + payload + filter
            var preview = CampaignPreview(
                try await execute(.previewCampaign, campaign + filter, within: Self.fileLimit).one())
            for (share, payload) in personal {
                preview.versions += try await execute(
                    .previewMessage,
                    parameters + filter + times + inShares
                        + ["payload": .text(payload), "share": .text(share ?? "payload")], within: Self.fileLimit
                ).map { VersionPreview($0, share: share) }
            }
            if clock.localTime != nil {
                preview.waves = try await execute(.previewWaves, filtered + times + ends, within: Self.fileLimit)
                    .map(WavePreview.init)
            }
            if message.pushType == .liveactivity {
                preview.starts = try await execute(.previewStarts, filtered, within: Self.fileLimit).first.map {
                    ($0.count("devices"), $0.count("without_token"))
                }
            }
            preview.quiet = try await execute(
                .previewQuietHours, parameters + filter + times + ends + quiet, within: Self.fileLimit
            ).map(QuietPreview.init)
            return preview
        }
        var preview: CampaignPreview?
        do {
            try await transaction(within: Self.fileLimit) {
                var users: UserCounts?
                if isOfUsers {
                    users = try await stageUsers(from: file, for: message, inQueue: queue, progress: progress)
                } else {
                    var reader = DeviceFileReader(file: file.name, for: .sending)
                    _ = try await stageDevices(from: file, by: &reader, progress: progress)
                }
                preview = CampaignPreview(
                    try await execute(.previewListCampaign, campaign, within: Self.fileLimit).one())
                preview?.users = users
                for (share, payload) in personal {
                    preview?.versions += try await execute(
                        .previewListMessage,
                        parameters + times + inShares
                            + ["payload": .text(payload), "share": .text(share ?? "payload")], within: Self.fileLimit
                    ).map { VersionPreview($0, share: share) }
                }
                if clock.localTime != nil {
                    preview?.waves = try await execute(
                        .previewListWaves, parameters + times + ends, within: Self.fileLimit
                    )
                    .map(WavePreview.init)
                }
                preview?.quiet = try await execute(
                    .previewListQuietHours, parameters + times + ends + quiet, within: Self.fileLimit
                ).map(QuietPreview.init)
                throw NothingIsWritten()
            }
        } catch is NothingIsWritten {}
        return preview!
    }

    /// How many recipients a campaign would have if it were started now, those of a holdout among them.
    package func countRecipients(
        of message: MessageDraft, toDevicesWhere filter: String?, key: String, inQueue queue: QueueName,
        clock: CampaignClock, shares: CampaignShares, limits: CampaignLimits
    ) async throws(PostgresError) -> Int {
        let parameters: Parameters =
            ["queue": .queue(queue), "key": .text(key), "filter": .text(filter)] + message.checkedParameters
            + clock.parameters + shares.parameters + limits.parameters + ["urgent": .bool(message.isUrgent)]
        return try await execute(.previewCampaign, parameters, within: Self.fileLimit).one().count("recipients")
    }

    /// Ends the transaction of a preview.
    private struct NothingIsWritten: Error {}
}

extension CampaignPreview {
    fileprivate init(_ row: Row) {
        self.init(
            recipients: row.count("recipients"), inactive: row.count("inactive"), unknown: row.count("unknown"),
            leftOut: row.count("left_out"), credential: row.optionalText("credential"),
            credentialExpiresAt: row.optionalTime("credential_expires_at"),
            rate: row.optionalFloat8("rate"), speed: row.optionalFloat8("speed"),
            wouldExpire: row.optionalInt8("would_expire").map(Int.init), doneAt: row.optionalTime("done_at"),
            seconds: row.optionalFloat8("seconds"),
            cap: row.optionalText("cap"), capped: row.optionalInt8("capped").map(Int.init),
            problems: row.textArray("problems"),
            inShares: row.optionalInt8Array("in_shares")?.map(Int.init))
    }
}

extension VersionPreview {
    fileprivate init(_ row: Row, share: String?) {
        self.init(
            share: share, language: row.optionalText("language"), recipients: row.count("recipients"),
            lacking: row.count("lacking"),
            tooLong: row.count("too_long"), longest: row.optionalInt4("longest").map(Int.init),
            most: Int(row.int4("most")), sample: row.text("sample"))
    }
}
