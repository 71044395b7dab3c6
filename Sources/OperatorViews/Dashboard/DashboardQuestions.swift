import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

/// The questions of the page. Each path asks what a command asks, and returns the JSON that this command prints.
enum DashboardQuestions {
    /// The maximum number of rows in a list.
    private static let maximumRows = 100
    /// The maximum number of failed jobs that are searched.
    private static let maximumLook = 10_000

    /// The paths of questions that are asked with GET. Their answers are shared.
    static let shared: Set = [
        "/api/overview", "/api/campaigns", "/api/campaign", "/api/schedules", "/api/failed", "/api/credentials",
        "/api/audit",
    ]
    /// The paths of questions that are asked with POST, because tokens and users do not belong in a URL.
    static let unshared: Set = ["/api/devices", "/api/trace"]

    static func answer(
        _ path: String, _ request: DashboardRequest, isOperator: Bool, _ store: PostgresConnection
    ) async throws -> JSON {
        switch path {
        case "/api/overview":
            let figures = try await store.topFigures(
                of: request.tenant, matching: request.matching, withWorkers: isOperator)
            return .object(
                TopColumns.listings(figures, in: TopState()).map { ($0.name, $0.json) }
                    + [("queues_found", .integer(figures.loads.found))])
        case "/api/campaigns":
            let found = try await store.campaigns(ofQueue: try request.optionalQueue(), limit: maximumRows)
            return Listing("campaigns", found, columns: CampaignColumns.all).json
        case "/api/campaign":
            return try await campaign(request.theKey(), of: request.theQueue(), store)
        case "/api/schedules":
            let found = try await store.schedules(ofQueue: try request.theQueue())
            return Listing("schedules", found, columns: ScheduleColumns.all).json
        case "/api/failed":
            let found = try await store.failedJobs(
                ofQueue: try request.optionalQueue(), try request.theFilter(), looking: maximumLook, limit: maximumRows)
            return Listing("jobs", found, columns: JobColumns.failed).json
        case "/api/credentials":
            let selection = ListSelection(matching: request.matching, limit: maximumRows)
            let found = try await store.credentials(of: nil, selection, endsFirst: true)
            return Listing("credentials", found, columns: CredentialColumns.all).json
        case "/api/audit":
            let entries = try await store.auditEntries(of: nil, since: nil, limit: maximumRows)
            return Listing("entries", entries, columns: AuditColumns.all).json
        case "/api/devices": return try await devices(request, store)
        case "/api/trace": return try await trace(request, store)
        default: throw DashboardError(status: 404, text: "there is nothing at \(path)")
        }
    }

    private static func campaign(
        _ key: String, of queue: QueueName, _ store: PostgresConnection
    ) async throws -> JSON {
        guard let campaign = try await store.campaign(key, ofQueue: queue) else {
            throw DashboardError(status: 404, text: "there is no campaign “\(key)” in queue \(queue)")
        }
        let timeline = try await store.timeline(ofRoot: campaign.id, inQueue: queue)
        let standstill = campaign.isFinished ? nil : try await store.standstill(ofRoot: campaign.id, inQueue: queue)
        let members = CampaignColumns.all.map { ($0.name, $0.cell(campaign).json) }
        return .object(
            members + [
                ("fanned_out_at", Cell.time(campaign.fannedOutAt).json),
                ("local_time", campaign.localTime.map { .string($0) } ?? .null),
                ("next_wave_at", Cell.time(campaign.nextWaveAt).json), ("left_out", Cell.count(campaign.leftOut).json),
                ("stands_because", standstill.map { .string("\($0)") } ?? .null),
                ("reasons", Listing("reasons", timeline.reasons, columns: CampaignColumns.reasons).json),
                ("timeline", Listing("timeline", timeline.intervals, columns: CampaignColumns.timeline).json),
                ("timeline_seconds", .decimal(timeline.intervalSeconds, places: 3)),
                ("timeline_is_partial", .bool(timeline.isPartial)),
            ])
    }

    private static func devices(_ request: DashboardRequest, _ store: PostgresConnection) async throws -> JSON {
        let queue = try request.theQueue()
        let found =
            switch try request.theSubject() {
            case .device(let token): try await store.device(token, inQueue: queue).map { [$0] } ?? []
            case .user(let user):
                try await store.devices(
                    inQueue: queue, after: 0, userKey: user, includesInactive: true, limit: maximumRows)
            }
        return Listing("devices", found, columns: DeviceColumns.all).json
    }

    private static func trace(_ request: DashboardRequest, _ store: PostgresConnection) async throws -> JSON {
        let queue = try request.theQueue()
        var query =
            switch try request.theSubject() {
            case .device(let token): TraceQuery(.token(token))
            case .user(let user): TraceQuery(.user(user))
            }
        query.campaign = request.campaign.flatMap { $0.isEmpty ? nil : $0 }
        return Listing("steps", try await store.trace(query, inQueue: queue), columns: TraceColumns.all).json
    }
}
