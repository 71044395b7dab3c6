/// Reads only the status of a server's answer (RFC 9112 §4): it tells the client whether the server took the request.
package struct AnswerStatusParser {
    /// The maximum number of bytes that are read before the status is known, including interim answers.
    package static let maximumBytes = 16 * 1024

    private enum Place {
        case statusLine
        /// In the fields of an interim answer (RFC 9110 §15.2).
        case interimFields
        case over
    }

    private var place = Place.statusLine
    private var line: [UInt8] = []
    private var byteCount = 0

    package init() {}

    /// Takes bytes that have come. Returns the status once it is known: 200 to 999.
    package mutating func take(_ bytes: Span<UInt8>) throws(AnswerFault) -> Int? {
        for index in bytes.indices {
            guard place != .over else { return nil }
            byteCount += 1
            guard byteCount <= Self.maximumBytes else { throw .tooLong }
            if bytes[index] != UInt8(ascii: "\n") {
                line.append(bytes[index])
            } else if let status = try endLine() {
                place = .over
                return status
            }
        }
        return nil
    }

    private mutating func endLine() throws(AnswerFault) -> Int? {
        defer { line = [] }
        guard line.last == UInt8(ascii: "\r") else { throw .notHTTP }
        line.removeLast()
        switch place {
        case .statusLine:
            let status = try Self.status(of: line)
            // The client never asks for another protocol.
            guard status != 101 else { throw .notHTTP }
            if status >= 200 { return status }
            place = .interimFields
        case .interimFields: if line.isEmpty { place = .statusLine }
        case .over: break
        }
        return nil
    }

    /// Reads the status of a line such as `HTTP/1.1 200 OK`. Some servers leave out the blank before an empty reason.
    private static func status(of line: [UInt8]) throws(AnswerFault) -> Int {
        let version = Array("HTTP/1.".utf8)
        guard line.starts(with: version), line.count >= 12, [0x30, 0x31].contains(line[7]), line[8] == 0x20,
            line.count == 12 || line[12] == 0x20
        else { throw .notHTTP }
        let digits = line[9..<12]
        guard digits.allSatisfy({ (0x30...0x39).contains($0) }) else { throw .notHTTP }
        let status = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
        guard status >= 100 else { throw .notHTTP }
        return status
    }
}

/// Why an answer has no status.
package enum AnswerFault: Error, Equatable {
    case notHTTP
    case tooLong
}
