import Cryptography
import HTTP2
import QueueCore
import Transport

/// What the connections of a simulator share: rules, counts, the record, the clock and the answers that are due later.
/// Lives on the simulator's loop.
final class Simulation {
    let loop: EventLoop
    let configuration: Simulator.Configuration
    let decider = Decider()
    let topics = TopicTable()
    let channels: ChannelTable
    let tokens: ProviderTokens
    let recorder: Recorder?
    var tally: Tally

    var feedback = FeedbackList()

    private(set) var connections: [Int: SimulatedConnection] = [:]
    private var binarySessions: [Int: BinarySession] = [:]
    private var wheel = AnswerWheel()
    private var due: [AnswerWheel.Entry] = []
    private var isTicking = false
    private var flushTimer: Timer?
    private let start = ContinuousClock.now

    /// Microseconds since 1970, and nanoseconds since the simulator started: read once for each burst of requests.
    private(set) var now = 0
    private(set) var monotonicNow: UInt64 = 0

    private static let flushInterval = Duration.milliseconds(200)
    private static let tick = Duration.milliseconds(1)

    init(
        _ configuration: Simulator.Configuration, loop: EventLoop, tokens: ProviderTokens, recorder: Recorder?
    ) {
        self.loop = loop
        self.configuration = configuration
        self.tokens = tokens
        self.recorder = recorder
        channels = ChannelTable(limit: configuration.channelLimit)
        tally = Tally(expectedRequestCount: configuration.expectedRequestCount)
        decider.use(configuration.rules, topics: topics)
    }

    /// Reads the clocks.
    func refreshClock() {
        let (seconds, attoseconds) = (ContinuousClock.now - start).components
        monotonicNow = UInt64(seconds) * 1_000_000_000 + UInt64(attoseconds / 1_000_000_000)
        now = WallClock.microseconds()
    }

    // MARK: Connections

    /// Takes a connection whose handshake is over.
    func accept(_ stream: TLSConnection) {
        guard let credential = credential(of: stream) else { return }
        tally.connections += 1
        let connection = SimulatedConnection(
            number: tally.connections, stream: stream, credential: credential, simulation: self)
        connections[connection.number] = connection
        recorder?.connected(connection.number, now: now)
        connection.begin()
    }

    /// The same on the port for channel management. Its loop keeps it as long as it is open.
    func acceptManagement(_ stream: TLSConnection) {
        guard let credential = credential(of: stream) else { return }
        _ = ManagementConnection(stream: stream, credential: credential, simulation: self)
    }

    /// The same on the port of the binary interface.
    func acceptBinary(_ stream: TLSConnection) {
        guard let topic = binaryTopic(of: stream) else { return }
        tally.connections += 1
        let session = BinarySession(number: tally.connections, stream: stream, topic: topic, simulation: self)
        binarySessions[session.number] = session
        recorder?.connected(session.number, now: now)
        session.begin()
    }

    /// The same on the port of the feedback service.
    func acceptFeedback(_ stream: TLSConnection) {
        guard let topic = binaryTopic(of: stream) else { return }
        _ = FeedbackSession(stream: stream, list: feedback.take(topic: topic))
    }

    /// One certificate is one topic. Nil if the connection was closed, because its certificate is none for this installation.
    private func binaryTopic(of stream: TLSConnection) -> String? {
        refreshClock()
        let certificate = try? stream.peerCertificate
        if let certificate, let topic = certificate.topics.first,
            ConnectionCredential.refusal(of: certificate.apns, configuration.environment) == nil
        {
            return topic
        }
        tally.failedHandshakes += 1
        stream.close()
        return nil
    }

    /// Nil if the connection had to be closed.
    private func credential(of stream: TLSConnection) -> ConnectionCredential? {
        refreshClock()
        guard let certificate = try? Optional(stream.peerCertificate) else {
            // It was verified in the handshake and cannot be read again: nothing that a client could cause.
            tally.failedHandshakes += 1
            stream.close()
            return nil
        }
        return ConnectionCredential(
            certificate: certificate, environment: configuration.environment, bundleIDs: configuration.bundleIDs)
    }

    func remove(_ connection: SimulatedConnection) {
        connections[connection.number] = nil
        recorder?.disconnected(connection.number, now: now)
    }

    func remove(_ session: BinarySession) {
        binarySessions[session.number] = nil
        recorder?.disconnected(session.number, now: now)
    }

    /// Drops all connections without a word.
    func dropConnections() {
        refreshClock()
        for connection in connections.values { connection.drop() }
        for session in binarySessions.values { session.drop() }
    }

    // MARK: Answers that are due later

    /// Has a request answered in so many microseconds.
    func answer(after delay: Int, connection: Int, slot: Int, generation: UInt32) {
        // Rounded up: an answer is not early.
        let dueAt = Int(monotonicNow / 1000) + delay + 999
        wheel.add(.init(dueAt: dueAt / 1000, connection: connection, slot: slot, generation: generation))
        tickOn()
    }

    private func tickOn() {
        guard !isTicking, wheel.count > 0 else { return }
        isTicking = true
        loop.schedule(after: Self.tick) { [weak self] in self?.tickNow() }
    }

    private func tickNow() {
        isTicking = false
        refreshClock()
        wheel.takeDue(at: Int(monotonicNow / 1_000_000), into: &due)
        var touched: Set<Int> = []
        for entry in due {
            guard let connection = connections[entry.connection] else { continue }
            connection.answer(entry.slot, generation: entry.generation)
            touched.insert(entry.connection)
        }
        due.removeAll(keepingCapacity: true)
        for number in touched { connections[number]?.flush() }
        tickOn()
    }

    // MARK: The record

    /// Writes what the recorder has gathered, now and every 200 ms.
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
            replies: decider.replies, topics: topics.names, openConnections: connections.count + binarySessions.count)
        snapshot.isRecordComplete = recorder?.hasFailed != true
        return snapshot
    }
}
