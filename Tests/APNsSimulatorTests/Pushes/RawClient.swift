import APNsSimulator
import Cryptography
import HTTP2
import Transport

/// A client of the simulator that writes octets as a test gives them, valid or not, and parses what comes back. It runs
/// on a loop.
final class RawClient {
    struct Frame: Equatable, CustomStringConvertible {
        var type: UInt8
        var flags: FrameFlags
        var streamID: UInt32
        var payload: [UInt8]

        var description: String { "type \(type), flags \(flags.rawValue), stream \(streamID), \(payload.count) octets" }

        /// The code of RST_STREAM and GOAWAY.
        var code: ErrorCode? {
            switch type {
            case FrameType.rstStream: ErrorCode(rawValue: Self.number(payload.prefix(4)))
            case FrameType.goAway: ErrorCode(rawValue: Self.number(payload.dropFirst(4).prefix(4)))
            default: nil
            }
        }

        private static func number(_ bytes: ArraySlice<UInt8>) -> UInt32 { bytes.reduce(0) { $0 << 8 | UInt32($1) } }
    }

    private let stream: TLSConnection
    private(set) var frames: [Frame] = []
    /// The `:status` of each answered stream, in the order of the answers.
    private(set) var answers: [(streamID: UInt32, status: Int)] = []
    private(set) var isClosed = false
    private var unread: [UInt8] = []
    private var unsent: [UInt8] = []
    private var decoder = HPACKDecoder()
    private var section = FieldSection()
    private var waiting: (holds: () -> Bool, continuation: CheckedContinuation<Bool, Never>)?

    /// The time after which an awaited event counts as missing.
    private static let patience = Duration.seconds(30)

    private init(_ stream: TLSConnection) {
        self.stream = stream
        stream.handler = self
    }

    /// Connects with a certificate from which the simulator accepts pushes, and runs `body`.
    static func with<Success: Sendable>(
        _ simulator: Simulator, _ body: @Sendable (RawClient) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "raw-client")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let context = try TLSContext.client(
                trusting: TrustStore(adding: [simulator.authority.certificate]), identity: simulator.identity())
            let stream = try await TLSConnection.connect(
                host: simulator.host, port: simulator.port, context: context, loop: loop, deadline: .now + patience)
            defer { stream.close() }
            return try await body(RawClient(stream))
        }
    }

    func send(_ bytes: [UInt8]) {
        unsent += bytes
        writable()
    }

    /// Waits until data from the server makes a condition true. Returns false if that takes too long.
    func when(_ holds: @escaping () -> Bool) async -> Bool {
        if holds() { return true }
        let timer = stream.loop.schedule(after: Self.patience) { [self] in wake(isLate: true) }
        defer { timer.cancel() }
        return await withCheckedContinuation { waiting = (holds, $0) }
    }

    private func wake(isLate: Bool = false) {
        guard let (holds, continuation) = waiting, isLate || holds() else { return }
        waiting = nil
        continuation.resume(returning: holds())
    }

    private func takeFrames() {
        while unread.count >= FrameHeader.byteCount {
            let payloadByteCount = unread.prefix(3).reduce(0) { $0 << 8 | Int($1) }
            guard unread.count >= FrameHeader.byteCount + payloadByteCount else { return }
            let streamID = unread[5..<9].reduce(0) { $0 << 8 | UInt32($1) }
            let frame = Frame(
                type: unread[3], flags: FrameFlags(rawValue: unread[4]), streamID: streamID,
                payload: Array(unread[9..<(9 + payloadByteCount)]))
            unread.removeFirst(FrameHeader.byteCount + payloadByteCount)
            frames.append(frame)
            if frame.type == FrameType.headers { note(frame) }
        }
    }

    private func note(_ headers: Frame) {
        do throws(Violation) {
            try decoder.decode(headers.payload.span, into: &section)
            answers.append((headers.streamID, section.status))
        } catch {
            preconditionFailure("the simulator wrote a header block that cannot be read: \(error)")
        }
    }
}

extension RawClient: ByteStreamHandler {
    func received(_ bytes: Span<UInt8>) {
        unread += Array(bytes)
        takeFrames()
        wake()
    }

    func writable() {
        unsent.removeFirst(stream.write(unsent.span))
    }

    func closed(_ error: TransportError?) {
        isClosed = true
        wake()
    }
}
