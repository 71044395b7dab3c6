import Foundation
package import QueueCore

/// The record of all runs of a simulator, push by push.
package struct PushRecord {
    /// One arrival of a push. Times are in microseconds since 1970.
    package struct Arrival {
        package let at: Int
        /// The number of the connection, unique over all runs.
        package let connection: Int
        /// When an answer was written; nil if none was.
        package fileprivate(set) var answeredAt: Int?
        package fileprivate(set) var status = 0
        package fileprivate(set) var reason = ""
        /// Identifies the token of the push; nil if the record has none.
        let token: String?
        /// Identifies the payload that was answered; nil until there is an answer.
        fileprivate(set) var payload: String?

        /// Whether APNs accepted the push, or refused it for good.
        package var isFinal: Bool { answeredAt != nil && mayHaveReachedDevice }

        /// Whether the push may have reached its device: APNs did not refuse it for another try. True if there was no
        /// answer.
        package var mayHaveReachedDevice: Bool { status != 403 && status != 429 && status < 500 }
    }

    /// The arrivals of each push, in order.
    package private(set) var pushes: [APNsID: [Arrival]] = [:]
    /// When each connection was told that a push is refused. Over the binary interface, this ends the connection and
    /// implies that all earlier pushes were accepted.
    package private(set) var refusedAt: [Int: Int] = [:]
    /// When each connection ended.
    package private(set) var connectionEnds: [Int: Int] = [:]
    /// The times of all arrivals, ascending.
    package private(set) var arrivals: [Int] = []

    private let names: [String: APNsID]

    /// Reads the files of the runs, in the order of the runs.
    /// - Parameter names: the pushes whose `apns-id` in the record is a substitute; see ``BinaryNames``.
    package init(files: [String], names: [String: APNsID] = [:]) throws {
        self.names = names
        var firstConnection = 0
        for file in files {
            let text = try String(contentsOfFile: file, encoding: .utf8)
            firstConnection = read(text, connectionsFrom: firstConnection)
        }
        arrivals.sort()
    }

    /// Returns how often a push may have reached its device beyond the first time. A refusal that asks for another try
    /// reaches no device.
    package func repeats(of id: APNsID) -> Int {
        max((pushes[id] ?? []).count(where: \.mayHaveReachedDevice) - 1, 0)
    }

    /// Reads the lines of a run, and returns the next free connection number. Skips a last line that is not complete; a
    /// killed simulator may leave one.
    private mutating func read(_ text: String, connectionsFrom first: Int) -> Int {
        var next = first
        var lastTime = 0
        var open: Set<Int> = []
        let decoder = JSONDecoder()
        for line in text.split(separator: "\n") {
            guard let event = try? decoder.decode(Line.self, from: Data(line.utf8)) else { continue }
            let connection = first + event.connection
            next = max(next, connection + 1)
            lastTime = max(lastTime, event.at)
            switch event.event {
            case "connected": open.insert(connection)
            case "disconnected":
                open.remove(connection)
                connectionEnds[connection] = event.at
            default: note(event, on: connection)
            }
        }
        for connection in open { connectionEnds[connection] = lastTime }
        return next
    }

    private mutating func note(_ event: Line, on connection: Int) {
        guard let id = event.apnsID.flatMap({ names[$0] ?? APNsID($0) }) else { return }
        if event.event == "arrived" {
            pushes[id, default: []].append(
                Arrival(at: event.at, connection: connection, token: event.tokenDigest))
            arrivals.append(event.at)
        } else if event.event == "answered",
            let index = pushes[id]?.lastIndex(where: { $0.connection == connection && $0.answeredAt == nil })
        {
            if event.status != 200 { refusedAt[connection] = event.at }
            pushes[id]![index].answeredAt = event.at
            pushes[id]![index].status = event.status ?? 0
            pushes[id]![index].reason = event.reason ?? ""
            pushes[id]![index].payload = event.payloadDigest
        }
    }

    private struct Line: Decodable {
        let at: Int
        let event: String
        let apnsID: String?
        let status: Int?
        let reason: String?
        let tokenDigest: String?
        let payloadDigest: String?
        let connection: Int

        enum CodingKeys: String, CodingKey {
            case at, event, status, reason, connection
            case apnsID = "apns_id"
            case tokenDigest = "token_digest"
            case payloadDigest = "payload_digest"
        }
    }
}
