package import FoundationEssentials
import QueueCore

extension Statement {
    /// Previews a campaign (migrations/functions/preview_campaign.sql).
    static let previewCampaign = previewCampaign("preview_campaign", audience: "filter => $filter")

    static let previewListCampaign = previewCampaign(
        "preview_list_campaign", audience: "tokens => array(select encode(token, 'hex') from device_stage where active)"
    )

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
    /// The devices that a campaign that starts Live Activities cannot reach; no row if it starts none.
    static let previewStarts = Statement(
        "preview_starts",
        #"""
        select p.devices, p.without_token
        from (select pushq.started_type($push_type, $payload::text::json) as activity_type) t
        cross join lateral pushq.preview_starts($queue, t.activity_type, filter => $filter) p
        where t.activity_type is not null
        """#)

    /// What the recipients would get, if it is not the same for all of them.
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
          tokens => array(select encode(token, 'hex') from device_stage where active), start_at => $start_at,
          local_time => $local_time, if_passed => $if_passed, catch_up => $catch_up, default_zone => $default_zone,
          key => $key, variants => $variants::json, holdout => $holdout, share => $share)
        """#)
}

/// The recipients of one version of a campaign's message. Of a variant, only recipients in its share.
package struct VersionPreview: Sendable {
    /// The share whose message this is a version of; nil: the campaign's payload.
    package let share: String?
    /// The version's language; nil for the default.
    package let language: String?
    package let recipients: Int
    /// Recipients that lack an attribute without a default.
    package let lacking: Int
    /// Recipients whose payload would be too long.
    package let tooLong: Int
    /// The length of their longest payload in bytes; nil if there is none.
    package let longest: Int?
    /// The maximum length of a payload in bytes.
    package let maximumLength: Int
    /// The payload of the first recipient, or the payload with the defaults of its placeholders.
    package let sample: String
}

/// What a campaign would do if it were started now.
package struct CampaignPreview: Sendable {
    package let recipients: Int
    /// Of a list: its tokens whose devices are inactive. Of another audience: the devices that it leaves out as
    /// inactive.
    package let inactive: Int
    /// Tokens of a list that do not have a device yet.
    package let unknown: Int
    /// Devices that the campaign's local time leaves out. They do not count as recipients.
    package let leftOut: Int
    package let credential: String?
    package let credentialExpiresAt: Date?
    /// Pushes per second that the queue's limits allow; nil: no limit.
    package let rate: Double?
    /// The speed of the queue's last campaign, in pushes per second; nil: there was none.
    package let speed: Double?
    /// Recipients that would expire unsent at the campaign's rate or the queue's limits; nil: no rate.
    package let wouldExpire: Int?
    /// When pushes to all other recipients would have been sent, at `speed` or slower; nil: unknown.
    package let doneAt: Date?
    /// The time from the start until `doneAt`, in seconds.
    package let seconds: Double?
    /// The queue's frequency cap in words, if it applies to the campaign, and how many recipients it would hold back
    /// now.
    package let cap: String?
    package let capped: Int?
    /// Why nothing, or not everything, would be sent now, and what would make PostgreSQL refuse the start.
    package let problems: [String]
    /// The devices in each share, if the campaign has shares: the holdout, which are not recipients, the payload, the
    /// variants.
    package let inShares: [Int]?
    /// The versions of the message, if it is not the same for all recipients.
    package var versions: [VersionPreview] = []
    /// Of a campaign at a local time: its waves.
    package var waves: [WavePreview] = []
    /// How many recipients would wait for the end of their quiet hours, for each such end.
    package var quiet: [QuietPreview] = []
    /// Of a campaign that starts Live Activities and is not for a file: the number of devices in its audience, and how
    /// many of them have no token that can start one.
    package var starts: (devices: Int, withoutToken: Int)?
    /// Of a campaign to the users of a file: the counts of these users.
    package var users: UserCounts?
}

extension PostgresConnection {
    /// Previews a campaign to all active devices, to the devices that match its filter, or to the tokens or users of a
    /// file. Writes nothing: the tokens are staged in a transaction that is rolled back.
    package func preview(
        _ draft: CampaignDraft, toThoseIn file: DeviceFile? = nil, isOfUsers: Bool = false,
        progress: (Int) -> Void = { _ in }
    ) async throws -> CampaignPreview {
        guard let file else { return try await previewAudience(of: draft) }
        return try await previewList(file, of: draft, isOfUsers: isOfUsers, progress: progress)
    }

    private func previewAudience(of draft: CampaignDraft) async throws(PostgresError) -> CampaignPreview {
        let parameters = PreviewParameters(draft)
        var preview = try await makePreview(by: .audience(of: draft), parameters)
        if draft.message.pushType == .liveactivity {
            let starts: Parameters = parameters.starts + ["filter": .text(draft.filter)]
            preview.starts = try await execute(.previewStarts, starts, within: Self.fileLimit).first.map {
                ($0.count("devices"), $0.count("without_token"))
            }
        }
        return preview
    }

    private func previewList(
        _ file: DeviceFile, of draft: CampaignDraft, isOfUsers: Bool, progress: (Int) -> Void
    ) async throws -> CampaignPreview {
        var preview: CampaignPreview?
        do {
            try await transaction(within: Self.fileLimit) {
                var users: UserCounts?
                if isOfUsers {
                    users = try await stageUsers(
                        from: file, for: draft.message, inQueue: draft.queue, progress: progress)
                } else {
                    var reader = DeviceFileReader(file: file.name, for: .sending)
                    _ = try await stageDevices(from: file, by: &reader, progress: progress)
                }
                preview = try await makePreview(by: .list, PreviewParameters(draft))
                preview?.users = users
                throw NothingIsWritten()
            }
        } catch is NothingIsWritten {}
        return preview!
    }

    /// Previews a campaign, with what both kinds of recipients have.
    private func makePreview(
        by statements: PreviewStatements, _ parameters: PreviewParameters
    ) async throws(PostgresError) -> CampaignPreview {
        let recipients = statements.recipients
        var preview = CampaignPreview(
            try await makeCall(statements.campaign, parameters.campaign + recipients).one())
        for (share, payload) in parameters.personal {
            let version: Parameters = ["payload": .text(payload), "share": .text(share ?? "payload")]
            preview.versions += try await makeCall(statements.message, parameters.message + recipients + version)
                .map { VersionPreview($0, share: share) }
        }
        if parameters.hasWaves {
            preview.waves = try await makeCall(
                statements.waves, parameters.waves + recipients + statements.onlyOfWaves
            ).map(WavePreview.init)
        }
        preview.quiet = try await makeCall(statements.quietHours, parameters.quietHours + recipients)
            .map(QuietPreview.init)
        return preview
    }

    /// Makes a call that may take long. In the transaction with a list, a call that is refused because the tenant has
    /// reached its limit must be repeated here: nothing else repeats it.
    private func makeCall(_ statement: Statement, _ parameters: Parameters) async throws(PostgresError) -> Rows {
        guard isInTransaction else { return try await execute(statement, parameters, within: Self.fileLimit) }
        return try await waitingForCalls { () async throws(PostgresError) in
            try await execute(statement, parameters, within: Self.fileLimit)
        }
    }

    /// Returns how many recipients a campaign would have if it were started now.
    package func countRecipients(of campaign: CampaignDraft) async throws(PostgresError) -> Int {
        let parameters =
            campaign.frame + campaign.message.checkedParameters
            + ["filter": .text(campaign.filter), "urgent": .bool(campaign.message.isUrgent)]
        return try await execute(.previewCampaign, parameters, within: Self.fileLimit).one().count("recipients")
    }

    /// Ends the transaction of a preview.
    private struct NothingIsWritten: Error {}
}

/// The parameters of the statements that preview a campaign, without those that are about its recipients.
private struct PreviewParameters {
    let campaign: Parameters
    let message: Parameters
    let waves: Parameters
    let quietHours: Parameters
    let starts: Parameters
    /// The payloads that are not the same for all recipients, each with its variant; nil: the campaign's payload.
    let personal: [(share: String?, payload: String)]
    /// Whether the campaign is sent at a local time.
    let hasWaves: Bool

    init(_ draft: CampaignDraft) {
        let pushes: Parameters = ["queue": .queue(draft.queue), "push_type": .text(draft.message.pushType.rawValue)]
        let times: Parameters = pushes + draft.clock.parameters + ["start_at": .time(draft.message.startAt)]
        let urgent: Parameters = ["urgent": .bool(draft.message.isUrgent)]
        campaign = draft.frame + draft.message.checkedParameters + urgent
        message = times + draft.shares.parameters + ["key": .text(draft.key)]
        waves =
            times + ["send_by": .time(draft.message.sendBy), "expiration": .int8(draft.message.message.expiration)]
        quietHours = waves + ["quiet_hours": .text(draft.limits.quietHours)] + urgent
        starts = pushes + ["payload": .text(draft.message.payload)]
        var payloads: [(share: String?, payload: String)] = [(nil, draft.message.payload)]
        for variant in draft.shares.variants { payloads.append((variant.name, variant.payload)) }
        personal = payloads.filter { CampaignMessage.isPersonal($0.payload) }
        hasWaves = draft.clock.localTime != nil
    }
}

/// The statements that preview a campaign to one kind of recipients.
private struct PreviewStatements {
    let campaign: Statement
    let message: Statement
    let waves: Statement
    let quietHours: Statement
    /// The parameters by which all these statements find the recipients.
    var recipients: Parameters = [:]
    /// Further parameters of `waves`.
    var onlyOfWaves: Parameters = [:]

    /// For all active devices, or for those that match the campaign's filter.
    static func audience(of draft: CampaignDraft) -> PreviewStatements {
        PreviewStatements(
            campaign: .previewCampaign, message: .previewMessage, waves: .previewWaves,
            quietHours: .previewQuietHours, recipients: ["filter": .text(draft.filter)],
            onlyOfWaves: ["payload": .text(draft.message.payload)])
    }

    /// For the devices that were staged in the transaction.
    static let list = PreviewStatements(
        campaign: .previewListCampaign, message: .previewListMessage, waves: .previewListWaves,
        quietHours: .previewListQuietHours)
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
            maximumLength: Int(row.int4("most")), sample: row.text("sample"))
    }
}
