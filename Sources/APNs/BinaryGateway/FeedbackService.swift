package import Cryptography
package import Transport

/// Reads the feedback service of the binary interface: the devices from which the certificate's app is gone.
///
/// The client writes nothing and reads to the end; reading clears the list (Apple archive, "Binary Provider API"). So
/// the caller stores each batch before more is read. Apple's own service was switched off on 31 March 2021.
///
/// Belongs to its loop.
package final class FeedbackService {
    /// Limits and times.
    package struct Settings: Sendable {
        /// The time for looking up the name, connecting and the TLS handshake together.
        package var connectTime = Duration.seconds(10)
        /// How long the service may be silent before the end of its list.
        package var silence = Duration.seconds(30)
        /// How long a list may take in all. The records that have come by then are kept, and the rest is read the next
        /// time.
        package var maximumTime = Duration.seconds(600)
        /// The maximum number of records in a batch, approximately.
        package var batchSize = 1000
        /// The number of records after which a list is not read on. The records up to there are kept, and the rest is
        /// read the next time.
        package var maximumRecords = 1_000_000

        package init() {}
    }

    private let endpoint: Endpoint
    private let context: TLSContext
    private let settings: Settings
    private let loop: EventLoop
    private var reader: Reader?
    private var isStopped = false

    /// Opens no connection yet. Throws if the certificate or an authority cannot be used.
    package init(
        endpoint: Endpoint, identity: TLSIdentity, settings: Settings = Settings(), loop: EventLoop
    ) throws(CryptographyError) {
        self.endpoint = endpoint
        self.settings = settings
        self.loop = loop
        context = try .client(trusting: endpoint.authorities, identity: identity, applicationProtocol: nil)
    }

    /// Reads the list to its end and returns how many records it had. It awaits `keep` for each batch, and reads
    /// nothing more meanwhile. An error of `keep` ends the reading. An incomplete record at the end is left out. Throws
    /// ``Failure`` if it does not come to the end of the list.
    package func read(_ keep: ([FeedbackRecord]) async throws -> Void) async throws -> Int {
        let stream = try await TLSConnection.connect(
            host: endpoint.host, port: endpoint.port, context: context, loop: loop,
            deadline: loop.now + settings.connectTime)
        defer { stream.close() }
        guard !isStopped else { throw Failure.stopped }
        let reader = Reader(stream: stream, batchSize: settings.batchSize)
        self.reader = reader
        let deadline = loop.now + settings.maximumTime
        var count = 0
        while let batch = try await reader.next(until: min(deadline, loop.now + settings.silence)) {
            try await keep(batch)
            count += batch.count
            if count > settings.maximumRecords {
                throw Failure.endless(peer: stream.peer, records: settings.maximumRecords)
            }
        }
        return count
    }

    /// Stops reading. The records that have come so far are still handed over.
    package func stop() {
        isStopped = true
        reader?.stop()
    }
}

extension FeedbackService {
    /// Why a list was not read to its end.
    package enum Failure: Error, Equatable, CustomStringConvertible {
        case silent(peer: String)
        case stopped
        case endless(peer: String, records: Int)
        case nonsense(peer: String, BinaryProtocolError)

        package var description: String {
            switch self {
            case .stopped: "the worker stopped before the end of the list"
            case .silent(let peer): "\(peer) did not come to the end of its list"
            case .endless(let peer, let records):
                "\(peer) did not come to the end of its list within \(records) records"
            case .nonsense(let peer, let error): "\(peer) \(error)"
            }
        }
    }

    /// Collects records until `next` takes them, at most about one batch.
    private final class Reader: ByteStreamHandler {
        private let stream: TLSConnection
        private let batchSize: Int
        private var parser = FeedbackRecord.Parser()
        private var records: [FeedbackRecord] = []
        private var end: Result<Void, any Error>?
        private var waiter: Waiter<Bool>?

        init(stream: TLSConnection, batchSize: Int) {
            self.stream = stream
            self.batchSize = batchSize
            stream.handler = self
        }

        /// Returns the next records, as soon as there are any; nil at the end of the list.
        func next(until deadline: ContinuousClock.Instant) async throws -> [FeedbackRecord]? {
            if records.isEmpty, end == nil {
                stream.resumeReading()
                let waiter = Waiter<Bool>(loop: stream.loop)
                self.waiter = waiter
                guard await waiter.wait(until: deadline) != nil else { throw Failure.silent(peer: stream.peer) }
            }
            if records.isEmpty, let end {
                try end.get()
                return nil
            }
            defer { records = [] }
            return records
        }

        func received(_ bytes: Span<UInt8>) {
            do throws(BinaryProtocolError) {
                try parser.take(bytes, into: &records)
            } catch {
                end = .failure(Failure.nonsense(peer: stream.peer, error))
                stream.close()
            }
            if records.count >= batchSize { stream.pauseReading() }
            if !records.isEmpty || end != nil { waiter?.resume(true) }
        }

        func stop() {
            stream.close()
            end = end ?? .failure(Failure.stopped)
            waiter?.resume(true)
        }

        func writable() {}

        func closed(_ error: TransportError?) {
            end = error.map { .failure($0) } ?? .success(())
            waiter?.resume(true)
        }
    }
}
