import PostgresStore
import QueueCore
import Terminal

/// Shows what a campaign would be, and sends and writes nothing.
struct DryRun {
    let queue: QueueName
    let key: String
    let message: MessageDraft
    let limits: CampaignLimits
    let filter: String?
    let clock: CampaignClock
    let shares: CampaignShares
    let database: DatabaseOptions

    /// - Parameters:
    ///   - file: of the tokens or users that the campaign is for; nil for all active devices, or those of the filter.
    ///   - isOfUsers: whether it is of users.
    /// - Throws: ``Unsuccessful`` if something is in the way.
    func run(_ file: DeviceFile?, isOfUsers: Bool, _ console: Console) async throws {
        let (queue, key, message, filter, clock, shares) = (queue, key, message, filter, clock, shares)
        let limits = limits
        let preview = try await database.session { store in
            let bar = ProgressBar("reading", total: nil, on: console)
            defer { bar.finish() }
            return try await store.preview(
                message, toDevicesWhere: filter, orIn: file, isOfUsers: isOfUsers, key: key, inQueue: queue,
                clock: clock, shares: shares, limits: limits
            ) {
                bar.update($0)
            }
        }
        let facts =
            audience(preview, isList: file != nil) + inShares(preview) + waves(preview) + quiet(preview)
            + sample(preview) + sending(preview)
        console.show(facts, "versions", preview.versions, columns: versionColumns)
        for problem in preview.problems { console.remark("in the way: \(problem)") }
        if !preview.problems.isEmpty { throw Unsuccessful() }
    }

    private func audience(_ preview: CampaignPreview, isList: Bool) -> [(name: String, value: Cell)] {
        var facts: [(name: String, value: Cell)] = [("queue", .text("\(queue)")), ("key", .text(key))]
        if let filter { facts.append(("filter", .text(filter))) }
        facts += preview.users?.facts ?? []
        facts.append(("recipients", .count(preview.recipients)))
        // Of users only the active devices are there.
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

    /// How many of the recipients each share would have. In which one a token will be that is no device yet, nobody
    /// knows.
    private func inShares(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        guard let counts = preview.inShares else { return [] }
        let rest = shares.variants.reduce(1 - (shares.holdout ?? 0)) { $0 - $1.fraction }
        let all =
            zip([("payload", rest)] + shares.variants.map { ($0.name, $0.fraction) }, counts.dropFirst())
            + (shares.holdout.map { [(("holdout", $0), counts[0])] } ?? [])
        let about = preview.unknown > 0 ? "about " : ""
        return all.map { share, count in
            ("share_\(share.0)", .text("\(Share(fraction: share.1).shown): \(about)\(Cell.count(count).text)"))
        }
    }

    /// When how many are due at the local time, and in which zones.
    private func waves(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        guard let time = clock.localTime else { return [] }
        var facts: [(name: String, value: Cell)] = [("local_time", .text(time))]
        for (index, wave) in preview.waves.enumerated() {
            let who = Self.who(wave.recipients, in: wave.timeZones)
            if let due = wave.dueAt {
                let fate = wave.isLate ? "; too late, the campaign has ended by then" : ""
                facts.append(("wave_\(index + 1)", .text("\(Cell.time(due).text): \(who)\(fate)")))
            } else {
                facts.append(("left_out", .text(who)))
            }
        }
        return facts
    }

    /// How many would wait for the end of their quiet hours, and in which zones.
    private func quiet(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        guard !preview.quiet.isEmpty else { return [] }
        let all = preview.quiet.reduce(0) { $0 + $1.recipients }
        let late = preview.quiet.reduce(0) { $0 + ($1.isLate ? $1.recipients : 0) }
        return [("in_quiet_hours", .count(all)), ("suppressed_in_quiet_hours", .count(late))]
            + preview.quiet.enumerated().map { index, end in
                let who = Self.who(end.recipients, in: end.timeZones)
                let fate = end.isLate ? "; suppressed, the campaign has ended by then" : ""
                return ("quiet_\(index + 1)", .text("until \(Cell.time(end.until).text): \(who)\(fate)"))
            }
    }

    private static func who(_ recipients: Int, in zones: [String]) -> String {
        let more = zones.count > 3 ? " and \(zones.count - 3) more zones" : ""
        return "\(Cell.count(recipients).text) in \(zones.prefix(3).joined(separator: ", "))\(more)"
    }

    /// The message, with its payload if that is the same for all.
    private func sample(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        let headers: [(name: String, value: Cell)] = [
            ("topic", .text(queue.app + message.pushType.topicSuffix)), ("push_type", .text(message.pushType.rawValue)),
            ("priority", .count(message.priority)), ("collapse_id", .text(message.collapseID)),
        ]
        let size = message.payload.utf8.count
        guard preview.versions.isEmpty else {
            let (lacking, tooLong) = preview.versions.reduce((0, 0)) { ($0.0 + $1.lacking, $0.1 + $1.tooLong) }
            return headers + [("lacking_attributes", .count(lacking)), ("payloads_too_long", .count(tooLong))]
        }
        return headers + [
            ("payload", .text(message.payload)),
            ("payload_bytes", .count(size)), ("payload_bytes_at_most", .count(message.pushType.maximumPayloadBytes)),
        ] + shares.variants.map { ("payload_of_\($0.name)", .text($0.payload)) }
    }

    /// What the recipients of each version get.
    private var versionColumns: [Column<VersionPreview>] {
        (shares.variants.isEmpty ? [] : [Column("share") { .text($0.share ?? "payload") }]) + [
            Column("language") { .text($0.language ?? "default") },
            Column("recipients") { .count($0.recipients) },
            Column("lacking") { .count($0.lacking) },
            Column("too_long") { .count($0.tooLong) },
            Column("longest") { preview in .text(preview.longest.map { "\($0) of \(preview.most)" }) },
            Column("sample") { .text($0.sample) },
        ]
    }

    private func sending(_ preview: CampaignPreview) -> [(name: String, value: Cell)] {
        let limit = [preview.rate, limits.maxRate].compactMap { $0 }.min()
        let rate = [limit, preview.speed].compactMap { $0 }.min()
        let basis =
            rate == nil
            ? "it has no rate, and the queue has had no campaign to more than 1,000 recipients"
            : rate == limit ? "at its rate" : "as fast as the queue's last campaign"
        let recipients = Double(preview.recipients - (preview.inShares?.first ?? 0))
        let duration = rate.map { Duration.seconds(max(1, (recipients / $0).rounded(.up))) }
        return [
            ("credential", .text(preview.credential)), ("credential_expires_at", .time(preview.credentialExpiresAt)),
            ("per_second", .decimal(rate, places: rate.map(Self.places(of:)) ?? 0)),
            ("duration", .duration(duration)), ("duration_basis", .text(basis)),
        ]
    }

    /// So many digits behind the point that a rate of a few pushes an hour is not shown as none.
    private static func places(of rate: Double) -> Int {
        if rate == rate.rounded() { return 0 }
        return rate >= 1 ? 1 : 5
    }
}
