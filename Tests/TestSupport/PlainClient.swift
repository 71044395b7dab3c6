import Foundation
package import Transport

/// A client of HTTP/1.1 that shares no code with the server: it writes the given text, and reads to the end.
package enum PlainClient {
    /// A parsed answer.
    package struct Answer: Sendable {
        package let status: Int
        /// The fields, with names in lower case.
        package let fields: [String: String]
        package let body: String
    }

    /// Connects, writes `text`, and returns everything until the server closes; empty if it cannot connect.
    package static func exchange(_ text: String, with address: ListenAddress) async -> String {
        // The calls block.
        await Task.detached {
            guard let connection = OpenConnection(to: address, sending: text) else { return "" }
            var answer: [UInt8] = []
            while let part = connection.stream.readSome() { answer += part }
            return String(decoding: answer, as: UTF8.self)
        }.value
    }

    /// A connection on which a text was sent. It stays open until this object is released.
    package final class OpenConnection: Sendable {
        fileprivate let stream: SocketStream

        /// Nil if it cannot connect.
        package init?(to address: ListenAddress, sending text: String) {
            let isConnected: Bool
            switch address {
            case .tcp(_, let port):
                stream = SocketStream(AF_INET)
                isConnected = stream.connect(toPort: port)
            case .unix(let path):
                stream = SocketStream(AF_UNIX)
                isConnected = stream.connect(to: path)
            }
            guard isConnected, stream.write(Array(text.utf8)) else { return nil }
        }
    }

    /// Sends a GET request for a path.
    package static func get(
        _ path: String, from address: ListenAddress, accept: String? = nil
    ) async throws -> Answer {
        let field = accept.map { "Accept: \($0)\r\n" } ?? ""
        let text = await exchange(
            "GET \(path) HTTP/1.1\r\nHost: test\r\n\(field)Connection: close\r\n\r\n", with: address)
        return try parse(text)
    }

    /// Parses the bytes of one answer.
    package static func parse(_ text: String) throws -> Answer {
        guard let end = text.firstRange(of: "\r\n\r\n") else {
            throw NeverHappened(description: "the server answered with: \(text)")
        }
        let lines = text[..<end.lowerBound].components(separatedBy: "\r\n")
        let status = lines[0].split(separator: " ").dropFirst().first.flatMap { Int($0) }
        guard let status else { throw NeverHappened(description: "the server answered with: \(text)") }
        var fields: [String: String] = [:]
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            fields[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        return Answer(status: status, fields: fields, body: String(text[end.upperBound...]))
    }
}

/// A page of metrics, parsed by code that shares nothing with the code that writes it.
package struct ScrapedPage: Sendable {
    /// The value of each series. The key is the series as the page writes it.
    package private(set) var values: [String: Double] = [:]

    package init(_ page: String) {
        for line in page.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " "), let value = Double(line[line.index(after: space)...]) else {
                continue
            }
            values[String(line[..<space])] = value
        }
    }

    /// The sum of the series of this name whose labels have all these values, each as `name="value"`.
    package func sum(_ name: String, _ labels: String...) -> Double {
        values.filter { series, _ in
            series.prefix { $0 != "{" } == name && labels.allSatisfy { series.contains($0) }
        }.values.reduce(0, +)
    }

    /// The names of all series.
    package var names: Set<String> { Set(values.keys.map { String($0.prefix { $0 != "{" }) }) }
}
