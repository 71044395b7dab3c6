import Transport

/// The objects that the sessions of a simulator share: configuration, rules, counts, the record and the clock. Lives on
/// the simulator's loop.
final class Simulation {
    private static let flushInterval = Duration.milliseconds(200)

    let loop: EventLoop
    private(set) var configuration: SimulatorConfiguration
    let clock = SimulationClock()
    let decider = Decider()
    let dueAnswers: DueAnswers
    let topics = TopicTable()
    let channels: ChannelTable
    let tokens: ProviderTokens
    let recorder: Recorder?
    var tally: Tally
    var feedback = FeedbackList()

    /// The open sessions, by number.
    private(set) var sessions: [Int: any Session] = [:]
    private var flushTimer: Timer?

    init(
        _ configuration: SimulatorConfiguration, loop: EventLoop, tokens: ProviderTokens, recorder: Recorder?
    ) {
        self.loop = loop
        self.configuration = configuration
        self.tokens = tokens
        self.recorder = recorder
        dueAnswers = DueAnswers(loop: loop, clock: clock)
        channels = ChannelTable(limit: configuration.channelLimit)
        tally = Tally(expectedRequestCount: configuration.expectedRequestCount)
        decider.use(configuration.rules, topics: topics)
    }

    /// Accepts tokens for these bundle IDs over new connections; nil: for any.
    func use(bundleIDs: [String]?) { configuration.bundleIDs = bundleIDs }

    // MARK: Sessions

    /// Counts a connection and returns its number.
    func countConnection() -> Int {
        tally.connections += 1
        return tally.connections
    }

    /// Notes that a session has begun.
    func add(_ session: any Session) {
        sessions[session.number] = session
        recorder?.connected(session.number, now: clock.now)
    }

    /// Notes that a session has ended.
    func remove(_ session: any Session) {
        sessions[session.number] = nil
        recorder?.disconnected(session.number, now: clock.now)
    }

    /// Resets all connections.
    func dropConnections() {
        clock.refresh()
        for session in sessions.values { session.drop() }
    }

    // MARK: The record

    /// Writes the gathered lines of the record, now and every 200 ms.
    func flushRecord() {
        guard let recorder else { return }
        recorder.flush()
        flushTimer = loop.schedule(after: Self.flushInterval) { [weak self] in self?.flushRecord() }
    }

    /// Drops all connections and writes the rest of the record.
    func end() {
        dropConnections()
        flushTimer?.cancel()
        recorder?.flush()
    }

    func snapshot() -> Snapshot {
        var snapshot = tally.snapshot(
            replies: decider.replies, topics: topics.names, openConnections: sessions.count)
        snapshot.providerTokens = tokens.seenCount
        snapshot.isRecordComplete = recorder?.hasFailed != true
        return snapshot
    }
}
