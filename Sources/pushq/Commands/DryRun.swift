import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

/// Shows what a campaign would do. Sends and writes nothing.
struct DryRun {
    let campaign: CampaignDraft
    let options: MessageOptions
    /// When a campaign on a given day starts.
    let dayStart: Date?
    let database: DatabaseOptions

    /// - Parameters:
    ///   - file: the tokens or users of the campaign; nil for all active devices, or the devices that match the filter.
    ///   - isOfUsers: whether the file contains users.
    /// - Throws: ``Unsuccessful`` if something would prevent the campaign.
    func run(_ file: DeviceFile?, isOfUsers: Bool, _ console: Console) async throws {
        let (campaign, options, dayStart) = (campaign, options, dayStart)
        let preview = try await database.session { store in
            let bar = ProgressBar("reading", total: nil, on: console)
            defer { bar.finish() }
            var campaign = campaign
            campaign.message = try await options.timed(campaign.message, dayStart: dayStart, in: store)
            return try await store.preview(campaign, toThoseIn: file, isOfUsers: isOfUsers) { bar.update($0) }
        }
        let facts =
            audience(preview, isList: file != nil) + inShares(preview) + waves(preview) + quiet(preview)
            + capped(preview) + sample(preview) + sending(preview)
        console.show(facts, "versions", preview.versions, columns: versionColumns)
        for problem in preview.problems { console.remark("in the way: \(problem)") }
        if !preview.problems.isEmpty { throw Unsuccessful() }
    }

    private func audience(_ preview: CampaignPreview, isList: Bool) -> [(name: String, value: Cell)] {
        var facts: [(name: String, value: Cell)] = [
            ("queue", .text("\(campaign.queue)")), ("key", .text(campaign.key)),
        ]
        if let filter = campaign.filter { facts.append(("filter", .text(filter))) }
        facts += preview.users?.facts ?? []
        facts.append(("recipients", .count(preview.recipients)))
        // For users, only their active devices are looked up.
        if preview.users != nil { return facts }
        guard isList else {
            facts.append(("inactive_left_out", .count(preview.inactive)))
            guard let starts = preview.starts else { return facts }
            return facts + [
                ("devices", .count(starts.devices)), ("devices_without_start_token", .count(starts.withoutToken)),
            ]
        }
        return facts + [("inactive_among_them", .count(preview.inactive)), ("new_devices", .count(preview.unknown))]
    }

    /// The number of devices in each share. The share of a token that is not a device yet is unknown.
    private func inShares(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        guard let counts = preview.inShares else { return [] }
        let rest = campaign.shares.variants.reduce(1 - (campaign.shares.holdout ?? 0)) { $0 - $1.fraction }
        let all =
            zip([("payload", rest)] + campaign.shares.variants.map { ($0.name, $0.fraction) }, counts.dropFirst())
            + (campaign.shares.holdout.map { [(("holdout", $0), counts[0])] } ?? [])
        let isEstimate = preview.unknown > 0
        return all.map { share, count in
            let part = Share(fraction: share.1)
            return (
                "share_\(share.0)",
                .told(
                    "\(part.shown): \(isEstimate ? "about " : "")\(Cell.count(count).text)",
                    json: ["of_devices": part.json, "devices": .integer(count), "is_estimate": .bool(isEstimate)])
            )
        }
    }

    /// The waves at the local time: when, how many recipients, and in which zones.
    private func waves(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        guard let time = campaign.clock.localTime else { return [] }
        var facts: [(name: String, value: Cell)] = [("local_time", .text(time))]
        for (index, wave) in preview.waves.enumerated() {
            if let due = wave.dueAt {
                let who = sent(wave.recipients, in: wave.timeZones)
                let fate =
                    wave.isLate
                    ? "; too late, the campaign has ended by then" : pace(preview, of: wave, before: index + 1)
                let json = JSON.object(
                    [("due_at", Cell.time(due).json)] + members(sent(wave.recipients), in: wave.timeZones)
                        + [("is_late", .bool(wave.isLate))])
                facts.append(("wave_\(index + 1)", .told("\(Cell.time(due).text): \(who)\(fate)", json: json)))
            } else {
                let who = Self.who(wave.recipients, in: wave.timeZones)
                facts.append(("left_out", .told(who, json: .object(members(wave.recipients, in: wave.timeZones)))))
            }
        }
        return facts
    }

    /// How long a wave takes, if the next wave begins before its end.
    private func pace(_ preview: CampaignPreview, of wave: WavePreview, before next: Int) -> String {
        guard let rate = rate(preview), let due = wave.dueAt, preview.waves.indices.contains(next),
            let end = preview.waves[next].dueAt
        else { return "" }
        let seconds = Double(wave.recipients) * sentShare / rate
        guard seconds > end.timeIntervalSince(due) else { return "" }
        return "; takes \(Cell.duration(.seconds(seconds.rounded(.up))).text), longer than until the next wave"
    }

    /// How many recipients the queue's frequency cap would hold back now.
    private func capped(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        guard let cap = preview.cap else { return [] }
        return [("frequency_cap", .text(cap)), ("held_back_by_cap_now", .count(preview.capped))]
    }

    /// How many recipients would wait for the end of their quiet hours, and in which zones.
    private func quiet(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        guard !preview.quiet.isEmpty else { return [] }
        let all = preview.quiet.reduce(0) { $0 + sent($1.recipients) }
        let late = preview.quiet.reduce(0) { $0 + ($1.isLate ? sent($1.recipients) : 0) }
        return [("in_quiet_hours", .count(all)), ("suppressed_in_quiet_hours", .count(late))]
            + preview.quiet.enumerated().map { index, end in
                let who = sent(end.recipients, in: end.timeZones)
                let fate = end.isLate ? "; suppressed, the campaign has ended by then" : ""
                let json = JSON.object(
                    [("until", Cell.time(end.until).json)] + members(sent(end.recipients), in: end.timeZones)
                        + [("is_late", .bool(end.isLate))])
                return ("quiet_\(index + 1)", .told("until \(Cell.time(end.until).text): \(who)\(fate)", json: json))
            }
    }

    /// The fraction of the devices that gets the push: all but the holdout.
    private var sentShare: Double { 1 - (campaign.shares.holdout ?? 0) }

    /// About how many of these devices get the push.
    private func sent(_ devices: Int) -> Int { Int((Double(devices) * sentShare).rounded()) }

    /// The recipients among these devices, in words.
    private func sent(_ devices: Int, in zones: [String]) -> String {
        (campaign.shares.holdout == nil ? "" : "about ") + Self.who(sent(devices), in: zones)
    }

    /// These recipients for programs.
    private func members(_ recipients: Int, in zones: [String]) -> [(String, JSON)] {
        [("recipients", .integer(recipients)), ("time_zones", .array(zones.map(JSON.string)))]
    }

    private static func who(_ recipients: Int, in zones: [String]) -> String {
        let more = zones.count > 3 ? " and \(zones.count - 3) more zones" : ""
        return "\(Cell.count(recipients).text) in \(zones.prefix(3).joined(separator: ", "))\(more)"
    }

    /// The message, with its payload if all recipients get the same one.
    private func sample(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        let headers: [(name: String, value: Cell)] = [
            ("topic", .text(campaign.queue.app + campaign.message.pushType.topicSuffix)),
            ("push_type", .text(campaign.message.pushType.rawValue)),
            ("priority", .count(campaign.message.priority)), ("collapse_id", .text(campaign.message.collapseID)),
        ]
        let size = campaign.message.payload.utf8.count
        guard preview.versions.isEmpty else {
            let (lacking, tooLong) = preview.versions.reduce((0, 0)) { ($0.0 + $1.lacking, $0.1 + $1.tooLong) }
            return headers + [
                ("lacking_attributes", .count(lacking)), ("payloads_too_long", .count(tooLong)),
                ("payload_bytes_at_most", .count(preview.versions[0].maximumLength)),
            ]
        }
        return headers + [
            ("payload", .text(campaign.message.payload)),
            ("payload_bytes", .count(size)),
            ("payload_bytes_at_most", .count(campaign.message.pushType.maximumPayloadBytes)),
        ] + campaign.shares.variants.map { ("payload_of_\($0.name)", .text($0.payload)) }
    }

    /// The versions of the message and their recipients.
    private var versionColumns: [Column<VersionPreview>] {
        (campaign.shares.variants.isEmpty ? [] : [Column("share") { .text($0.share ?? "payload") }]) + [
            Column("language") { .text($0.language ?? "default") },
            Column("recipients") { .count($0.recipients) },
            Column("lacking") { .count($0.lacking) },
            Column("too_long") { .count($0.tooLong) },
            Column("longest") { version in
                version.longest.map { .told("\($0) of \(version.maximumLength)", json: .integer($0)) } ?? .text(nil)
            },
            Column("sample") { .text($0.sample) },
        ]
    }

    /// The lowest of the rate limits that apply to the campaign; nil if there is none.
    private func limit(_ preview: CampaignPreview) -> Double? {
        [preview.rate, campaign.limits.maxRate].compactMap { $0 }.min()
    }

    /// The expected speed; nil if unknown.
    private func rate(_ preview: CampaignPreview) -> Double? {
        [limit(preview), preview.speed].compactMap { $0 }.min()
    }

    private func sending(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        let (limit, rate) = (limit(preview), rate(preview))
        let basis =
            rate == nil
            ? "it has no rate, and no recent campaign of the queue to more than 1,000 recipients shows how fast it is"
            : rate == limit ? "at its rate" : "as fast as the queue's last campaign that nothing held up"
        var facts: [(name: String, value: Cell)] = [
            ("credential", .text(preview.credential)), ("credential_expires_at", .time(preview.credentialExpiresAt)),
            ("per_second", .decimal(rate, places: rate.map(Self.places(of:)) ?? 0)),
        ]
        if let first = preview.waves.lazy.compactMap(\.dueAt).first {
            // Measures from the first wave, because the campaign mostly waits before that.
            let duration = preview.doneAt.map { Duration.seconds(max(1, $0.timeIntervalSince(first).rounded(.up))) }
            facts += [
                ("duration", .duration(duration)),
                ("duration_basis", .text(rate == nil ? basis : "from the first wave to the end of the last, \(basis)")),
                ("done_at", .time(preview.doneAt)),
            ]
        } else {
            let duration = preview.seconds.map { Duration.seconds(max(1, $0.rounded(.up))) }
            facts += [("duration", .duration(duration)), ("duration_basis", .text(basis))]
        }
        guard let late = preview.wouldExpire, late > 0 else { return facts }
        let end = isEndedByExpiration ? "--expiration" : "--send-by"
        let advice =
            limit == campaign.limits.maxRate
            ? "raise --max-rate or \(end)"
            : "give a later \(end), or have an operator raise the rate of the queue or tenant"
        return facts + [
            (
                "would_expire",
                .told(
                    "about \(Cell.count(late).text): the campaign ends before they are sent to; \(advice)",
                    json: .integer(late))
            )
        ]
    }

    /// Whether the message expires before the time to send it ends.
    private var isEndedByExpiration: Bool {
        guard let expiration = campaign.message.expiration, expiration > 0 else { return false }
        // Without `--send-by`, sending ends after a day; at a local time, a day after each wave.
        let day = max(Date.now, campaign.message.startAt ?? .now) + 24 * 3600
        let end = campaign.message.sendBy ?? (campaign.clock.localTime == nil ? day : .distantFuture)
        return Date(timeIntervalSince1970: Double(expiration)) < end
    }

    /// The number of decimal places. A rate of a few pushes per hour needs several, or it would be shown as 0.
    private static func places(of rate: Double) -> Int {
        if rate == rate.rounded() { return 0 }
        return rate >= 1 ? 1 : 5
    }
}
