import PostgresStore
import QueueCore
import Terminal

struct CampaignRecipientsCommand: Command {
    static let name = "recipients"
    static let users = CommandUsers.tenants
    static let summary = "Writes the present tokens of a campaign's recipients, one per line, for a correction."
    static let discussion = """
        It writes whole tokens, each once; with --json, objects with the token and the user. 'pushq campaign --tokens' \
        reads both. The default outcomes are those of recipients that got the push or may have got it. With 'unknown', \
        it writes also those that failed or were rejected after a push without an answer. Of a recipient whose token \
        was replaced, it writes the newest token. With --share, it writes only those of one variant, for example the \
        wrong one.

        At its end it says how many tokens it has written, how many recipients have no active token now or were \
        forgotten, and how many have no outcome yet. Cancel the campaign first: then all get one, and those that may \
        have got the push end as unknown.

        The jobs of the campaign are read page by page, each page as it is at that moment. Recipients are kept as long \
        as the tenant's history. A warning says how many are no longer kept; if none is, the command fails.
        """
    static let examples = [
        "campaign recipients acme/com.acme.shop/production spring-sale",
        "campaign recipients acme/com.acme.shop/production spring-sale --outcome rejected,failed --json",
        "campaign recipients acme/com.acme.shop/production spring-sale --share b",
    ]

    @Option("Only recipients with one of these outcomes, with commas between them.") var outcome: EndOutcomes =
        .perhapsReached
    @Option("Only recipients in this share: payload, or the name of a variant.", "NAME") var share: String?
    var named = NamedCampaign()

    /// A page has up to 10,000 recipients: less than a megabyte, read in a fraction of a second.
    private static let jobsPerPage = 20

    func run(_ console: Console) async throws {
        let (outcomes, share, asJSON) = (outcome.kinds, share, console.speaksJSON)
        let (contents, before, now) = try await named.withCampaign { campaign, store in
            let before = try await Self.counts(of: campaign, share: share, store)
            var contents = Contents()
            // Few devices have replaced others, so this stays small for millions of recipients.
            var written: Set<Int64> = []
            var last: Int64 = 0
            while let page = try await store.recipients(
                ofCampaign: campaign.key, share: share, inQueue: campaign.queue, endedAs: outcomes, asJSON: asJSON,
                after: last, limit: Self.jobsPerPage)
            {
                var lines = [page.lines].compactMap(\.self)
                for (device, line) in page.mayRepeat where written.insert(device).inserted { lines.append(line) }
                if !lines.isEmpty { console.print(rows: lines.joined(separator: "\n")) }
                try console.checkOutput()
                contents.add(page)
                last = page.last
            }
            contents.devices += written.count
            // Asked anew: outcomes may have come meanwhile, and failed recipients may have been retried.
            let now = try await store.campaign(campaign.key, ofQueue: campaign.queue) ?? campaign
            return (contents, before, try await Self.counts(of: now, share: share, store))
        }
        let ended = min(before.number(endedAs: outcomes), now.number(endedAs: outcomes))
        let dropped = max(0, ended - contents.counted)
        let late = now.number(endedAs: outcomes) - contents.counted - dropped
        try report(contents, lost: contents.lost + dropped, of: now, console)
        // The list is used as it is, so whoever is missing in it must not be overlooked.
        guard late <= 0 else {
            throw Failure(
                "not listed: \(NumberText.counted(late, "recipient")) whose outcome came meanwhile; repeat this")
        }
    }

    /// What is counted of a campaign, or of a share of it. The first page refuses a name that no share has.
    private static func counts(
        of campaign: CampaignSummary, share: String?, _ store: PostgresConnection
    ) async throws -> Counts {
        guard let share else {
            var tally = campaign.tally
            tally.cancelled -= campaign.inNoJob
            return Counts(campaign: campaign, tally: tally, waiting: campaign.waiting)
        }
        let shares = try await store.shares(ofCampaign: campaign.id, inQueue: campaign.queue)
        let counted = shares.first { $0.name == share }
        return Counts(campaign: campaign, tally: counted?.tally ?? OutcomeTally(), waiting: counted?.waiting ?? 0)
    }

    /// Says what was written, and what is missing in it.
    ///
    /// - Parameter lost: recipients that are no longer kept.
    /// - Throws: ``Failure`` if no recipient is kept any more.
    private func report(_ contents: Contents, lost: Int, of counts: Counts, _ console: Console) throws {
        guard lost == 0 || contents.known > 0 else {
            throw Failure(
                "no longer kept: \(NumberText.counted(lost, "recipient")) of campaign \(named.key) with this outcome; "
                    + "its history is past the tenant's retention")
        }
        let part = share.map { "; share: \($0)" } ?? ""
        console.remark(
            "\(NumberText.counted(contents.devices, "device")) of campaign \(named.key)\(part); "
                + "outcome: \(outcome.shown)")
        if contents.inactive > 0 {
            console.remark(
                "left out: \(NumberText.counted(contents.inactive, "recipient")) without an active token now")
        }
        if contents.forgotten > 0 {
            console.remark("left out: \(NumberText.counted(contents.forgotten, "recipient")), forgotten since")
        }
        let isFannedOut = counts.campaign.fannedOutAt != nil
        if !counts.campaign.isFinished, counts.waiting > 0 || !isFannedOut {
            let others = isFannedOut ? "" : ", and those who are in no job yet"
            console.remark(
                "left out: \(NumberText.counted(counts.waiting, "recipient")) without an outcome yet\(others); "
                    + "repeat this when the campaign has ended or was cancelled")
        }
        if lost > 0 {
            console.warn(
                "not listed: \(NumberText.counted(lost, "recipient")), no longer kept, because a part of the "
                    + "campaign's history is past the tenant's retention")
        }
    }

    /// What is counted of a campaign, or of a share of it.
    private struct Counts: Sendable {
        let campaign: CampaignSummary
        /// The recipients that were in jobs.
        let tally: OutcomeTally
        let waiting: Int

        /// How many of the recipients have one of these outcomes.
        func number(endedAs outcomes: [Outcome.Kind]) -> Int {
            outcomes.reduce(0) { sum, kind in
                switch kind {
                case .delivered: sum + tally.delivered
                case .rejected: sum + tally.rejected
                case .failed: sum + tally.failed
                case .suppressed: sum + tally.suppressed
                case .expired: sum + tally.expired
                case .cancelled: sum + tally.cancelled
                case .unknown: sum + tally.unknown
                case .waiting, .retried, .postponed: sum
                }
            }
        }
    }

    /// What the pages had.
    private struct Contents: Sendable {
        /// Distinct devices.
        var devices = 0
        var inactive = 0
        var forgotten = 0
        /// Recipients in jobs whose day is past retention.
        var lost = 0
        /// Recipients of whom it is known which device they were.
        var known = 0
        /// How many of all these the campaign counts under another outcome.
        var doubtful = 0

        /// How many of all these the campaign counts under the outcomes that were asked for. Those in doubt must not
        /// make up for others that are missing.
        var counted: Int { known + lost - doubtful }

        mutating func add(_ page: CampaignRecipients) {
            devices += page.count
            inactive += page.inactive
            forgotten += page.forgotten
            lost += page.lost
            doubtful += page.doubtful
            known += page.count + page.mayRepeat.count + page.inactive + page.forgotten
        }
    }
}

/// Outcomes of recipients on a command line: `delivered,unknown`.
struct EndOutcomes: ArgumentValue, Sendable {
    let kinds: [Outcome.Kind]

    /// The outcomes of recipients that got the push or may have got it.
    static let perhapsReached = EndOutcomes(kinds: [.delivered, .unknown])

    static let placeholder = "OUTCOMES"
    var shown: String { kinds.map(\.rawValue).joined(separator: ",") }

    static func parse(_ text: String) throws(InvalidValue) -> EndOutcomes {
        var kinds: [Outcome.Kind] = []
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let kind = ends.first(where: { $0.rawValue == word }) else {
                throw InvalidValue(
                    "is not a list of outcomes: use \(ends.map(\.rawValue).joined(separator: ", ")), with commas "
                        + "between them")
            }
            if !kinds.contains(kind) { kinds.append(kind) }
        }
        return EndOutcomes(kinds: kinds)
    }

    /// The outcomes after which nothing more is sent to a recipient.
    private static let ends = Outcome.Kind.allCases.filter {
        ![Outcome.Kind.waiting, .retried, .postponed].contains($0)
    }
}
