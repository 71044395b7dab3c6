package import APNs
package import Cryptography
package import HTTP2
package import Transport

/// A server that handles each request as a test says, frame by frame. It runs on the test's loop.
package final class MockAPNs {
    /// A request that has arrived completely.
    package struct Request {
        package let connection: Connection
        package let streamID: UInt32
        package let fields: [String: String]
        package let body: [UInt8]

        /// The connection that was made first.
        package var firstConnection: Connection? { connection.server.connections.first }

        /// The number of connections made so far.
        package var connectionCount: Int { connection.server.connections.count }

        package func answer(_ status: Int = 200, body: String = "", fields: [(String, String)] = []) {
            connection.answer(streamID, status, body, fields)
        }
    }

    package private(set) var requests: [Request] = []
    package private(set) var connections: [Connection] = []
    /// The limit in the first SETTINGS of connections that are made from now on.
    package var maximumStreams: Int
    private let respond: (Request) -> Void
    fileprivate let windowSize: Int?
    fileprivate let readsBodies: Bool
    fileprivate let greeting: String?
    fileprivate let isSilent: Bool
    fileprivate let acknowledgesSettings: Bool
    private var listener: TLSListener?

    package static let authority = Result { () throws(CryptographyError) in
        try CertificateAuthority.make(commonName: "Test CA")
    }

    /// - Parameters:
    ///   - maximumStreams: the limit in its first SETTINGS.
    ///   - windowSize: the window of each stream and of the connection; nil: the initial window of HTTP/2.
    ///   - greeting: the debug data of a GOAWAY that it sends instead of its first SETTINGS.
    ///   - isSilent: it completes the TLS handshake, and then sends nothing.
    ///   - acknowledgesSettings: whether it acknowledges the client's SETTINGS.
    ///   - readsBodies: if false, a request counts as arrived with its fields, and the server never gives back the
    ///     connection's window.
    package init(
        on loop: EventLoop, maximumStreams: Int = 1000, windowSize: Int? = nil,
        readsBodies: Bool = true, greeting: String? = nil, isSilent: Bool = false,
        acknowledgesSettings: Bool = true, host: String = "127.0.0.1", port: UInt16 = 0,
        clientCertificates: TLSContext.ClientCertificates = .notAsked,
        newestVersion: TLSVersion = .tls13, respond: @escaping (Request) -> Void
    ) throws {
        self.maximumStreams = maximumStreams
        self.respond = respond
        self.readsBodies = readsBodies
        self.greeting = greeting
        self.isSilent = isSilent
        self.acknowledgesSettings = acknowledgesSettings
        self.windowSize = windowSize
        let identity = try Self.authority.get().issueServer(names: ["localhost", "127.0.0.1"])
        let context = try TLSContext.server(
            identity: identity, clientCertificates: clientCertificates, newestVersion: newestVersion)
        listener = try TLSListener(host: host, port: port, context: context, loop: loop) { [self] stream in
            connections.append(Connection(stream, server: self, maximumStreams: self.maximumStreams))
        }
    }

    package var endpoint: Endpoint {
        get throws {
            Endpoint(
                host: "127.0.0.1", port: listener?.port ?? 0,
                authorities: try TrustStore(adding: [Self.authority.get().certificate]))
        }
    }

    /// Accepts no more connections and cuts the open ones.
    package func close() {
        listener?.close()
        for connection in connections { connection.stream.close() }
    }

    fileprivate func arrived(_ request: Request) {
        requests.append(request)
        respond(request)
    }
}

extension MockAPNs {
    package final class Connection: ByteStreamHandler, HTTP2Handler {
        package let stream: TLSConnection
        package let http: HTTP2Connection
        /// The number of the connection, from 0, in the order in which connections were made.
        package let number: Int
        fileprivate let server: MockAPNs
        private var partials: [UInt32: (fields: [String: String], body: [UInt8])] = [:]
        package private(set) var openCount = 0
        package private(set) var highestOpenCount = 0
        package private(set) var goAwayCode: ErrorCode?
        package private(set) var isClosed = false

        init(_ stream: TLSConnection, server: MockAPNs, maximumStreams: Int) {
            var settings = Settings()
            settings.maximumConcurrentStreams = maximumStreams
            var limits = ConnectionLimits()
            if let size = server.windowSize { (settings.initialWindowSize, limits.connectionWindowSize) = (size, size) }
            http = HTTP2Connection(role: .server, settings: settings, limits: limits)
            self.stream = stream
            self.server = server
            number = server.connections.count
            stream.handler = self
            if server.isSilent {
                http.consumeOutput(http.outputByteCount)
            } else if let greeting = server.greeting {
                goAwayAtOnce(greeting)
            } else {
                flush()
            }
        }

        private func goAwayAtOnce(_ greeting: String) {
            // A GOAWAY without the SETTINGS that must come first. HTTP2 would not send it by itself.
            var bytes = ByteQueue()
            bytes.append(bigEndian: UInt32(8 + greeting.utf8.count) << 8 | 7)  // GOAWAY
            bytes.append(0)
            for _ in 0..<3 { bytes.append(bigEndian: UInt32(0)) }  // stream 0, last stream 0, NO_ERROR
            bytes.append(Array(greeting.utf8))
            bytes.withBytes { _ = stream.write($0) }
        }

        package func answer(_ streamID: UInt32, _ status: Int, _ body: String, _ fields: [(String, String)]) {
            let headers = PreparedHeaders(
                [PreparedHeaders.Field(":status", String(status))]
                    + fields.map { PreparedHeaders.Field($0.0, $0.1, indexing: .withoutIndexing) })
            guard http.openResponse(on: streamID, headers) else { return }
            openCount -= 1
            http.finish(body: Array(body.utf8))
            flush()
        }

        /// Sends the status without the end of the stream: the announced body does not come.
        package func answerHead(_ streamID: UInt32, _ status: Int) {
            var bytes = ByteQueue()
            bytes.append(bigEndian: UInt32(5) << 8 | 1)  // length 5, HEADERS
            bytes.append(0x4)  // END_HEADERS
            bytes.append(bigEndian: streamID)
            bytes.append([0x08, 0x03] + Array(String(status).utf8))  // :status as a literal
            bytes.withBytes { _ = stream.write($0) }
        }

        /// Breaks a rule on a stream: WINDOW_UPDATE by 0 (RFC 9113 §6.9).
        package func updateWindowByNothing(of streamID: UInt32) {
            var bytes = ByteQueue()
            bytes.append(bigEndian: UInt32(4) << 8 | 8)  // length 4, WINDOW_UPDATE
            bytes.append(0)
            bytes.append(bigEndian: streamID)
            bytes.append(bigEndian: UInt32(0))
            bytes.withBytes { _ = stream.write($0) }
        }

        /// Sends a part of a body whose end does not come.
        package func answerPart(_ streamID: UInt32, _ part: [UInt8]) {
            var bytes = ByteQueue()
            bytes.append(bigEndian: UInt32(part.count) << 8)  // DATA
            bytes.append(0)
            bytes.append(bigEndian: streamID)
            bytes.append(part)
            bytes.withBytes { _ = stream.write($0) }
        }

        /// Sends a whole answer with the fields of `block`, in HPACK. HTTP2 would not write such an answer by itself.
        package func answerRaw(_ streamID: UInt32, block: [UInt8]) {
            var bytes = ByteQueue()
            bytes.append(bigEndian: UInt32(block.count) << 8 | 1)  // HEADERS
            bytes.append(0x5)  // END_HEADERS, END_STREAM
            bytes.append(bigEndian: streamID)
            bytes.append(block)
            bytes.withBytes { _ = stream.write($0) }
        }

        package func allow(_ maximumStreams: Int) {
            var settings = Settings()
            settings.maximumConcurrentStreams = maximumStreams
            announce(settings)
        }

        package func announce(_ settings: Settings) {
            http.announce(settings)
            flush()
        }

        package func reset(_ streamID: UInt32, _ code: ErrorCode) {
            http.reset(streamID, code)
            openCount -= 1
            flush()
        }

        /// Sends RST_STREAM for a stream that is already closed. HTTP2 would not send it by itself.
        package func resetAgain(_ streamID: UInt32, _ code: ErrorCode) {
            var bytes = ByteQueue()
            bytes.append(bigEndian: UInt32(4) << 8 | 3)  // length 4, RST_STREAM
            bytes.append(0)
            bytes.append(bigEndian: streamID)
            bytes.append(bigEndian: code.rawValue)
            bytes.withBytes { _ = stream.write($0) }
        }

        package func goAway(last: UInt32? = nil, _ code: ErrorCode = .noError, debug: String = "") {
            http.goAway(code, lastStreamID: last, debugData: Array(debug.utf8))
            flush()
        }

        /// Ends the TCP connection without sending an HTTP/2 frame.
        package func cut() {
            stream.close()
        }

        package func flush() {
            guard http.outputByteCount > 0 else { return }
            guard server.readsBodies, server.acknowledgesSettings else { return flushInPart() }
            http.consumeOutput(http.withOutput { stream.write($0) })
        }

        /// Writes the output without the frames that this server leaves out. The output consists of whole frames.
        private func flushInPart() {
            var rest = http.withOutput { Array($0) }[...]
            http.consumeOutput(rest.count)
            while !rest.isEmpty {
                let frame = rest.prefix(9 + rest.prefix(3).reduce(0) { $0 << 8 | Int($1) })
                rest = rest.dropFirst(frame.count)
                if !isLeftOut(Array(frame)) { _ = stream.write(Array(frame).span) }
            }
        }

        private func isLeftOut(_ frame: [UInt8]) -> Bool {
            switch (type: frame[3], flags: frame[4]) {
            case (8, _): !server.readsBodies && frame[5..<9].allSatisfy { $0 == 0 }  // WINDOW_UPDATE, connection
            case (4, 1): !server.acknowledgesSettings  // SETTINGS, ACK
            default: false
            }
        }

        // MARK: ByteStreamHandler

        package func received(_ bytes: Span<UInt8>) {
            if server.isSilent { return }
            http.receive(bytes, now: 0, handler: self)
            flush()
        }

        package func writable() { flush() }
        package func closed(_ error: TransportError?) { isClosed = true }

        // MARK: HTTP2Handler

        package func received(_ section: borrowing FieldSection, on stream: StreamReference, isLast: Bool) {
            var fields: [String: String] = [:]
            for field in section.fields {
                let name = section.withName(of: field) { String(decoding: Array($0), as: UTF8.self) }
                fields[name] = section.withValue(of: field) { String(decoding: Array($0), as: UTF8.self) }
            }
            openCount += 1
            highestOpenCount = max(highestOpenCount, openCount)
            partials[stream.id] = (fields, [])
            if isLast || !server.readsBodies { complete(stream.id) }
        }

        package func received(_ body: Span<UInt8>, on stream: StreamReference, isLast: Bool) {
            partials[stream.id]?.body += Array(body)
            if isLast { complete(stream.id) }
        }

        private func complete(_ streamID: UInt32) {
            guard let (fields, body) = partials.removeValue(forKey: streamID) else { return }
            server.arrived(Request(connection: self, streamID: streamID, fields: fields, body: body))
        }

        package func ended(_ stream: StreamReference, by ending: StreamEnding) { openCount -= 1 }
        package func peerSettingsChanged() {}
        package func settingsAcknowledged() {}
        package func receivedGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>) { goAwayCode = code }
        package func pingAnswered(_ payload: UInt64) {}
        package func failed(_ error: HTTP2Error) {}
    }
}
