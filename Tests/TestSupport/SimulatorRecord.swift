import Foundation

/// The record of a simulator: one event for each line of its file.
package struct SimulatorRecord {
    /// A line of the record.
    package struct Event: Decodable {
        /// Microseconds since 1970.
        package let at: Int
        package let event: String
        package let apnsID: String?
        package let topic: String?
        package let status: Int?
        package let reason: String?
        /// The digest of the device token (`RecordDigest`), for an arrival.
        package let tokenDigest: String?
        /// The digest of the payload (`RecordDigest`), for an answer.
        package let payloadDigest: String?
        /// The number of the connection.
        package let connection: Int?

        enum CodingKeys: String, CodingKey {
            case at, event, topic, status, reason, connection
            case apnsID = "apns_id"
            case tokenDigest = "token_digest"
            case payloadDigest = "payload_digest"
        }
    }

    package let events: [Event]

    /// Reads the file that a simulator has written and flushed. Skips a last line that is not complete.
    package init(path: String) throws {
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let decoder = JSONDecoder()
        events = text.split(separator: "\n").compactMap { try? decoder.decode(Event.self, from: Data($0.utf8)) }
    }

    /// The times of arrivals, ascending, in microseconds since 1970.
    package var arrivals: [Int] { events.filter { $0.event == "arrived" }.map(\.at).sorted() }

    /// The times of arrivals for one topic, ascending, in microseconds since 1970.
    package func arrivals(of topic: String) -> [Int] {
        events.filter { $0.event == "arrived" && $0.topic == topic }.map(\.at).sorted()
    }

    /// The maximum number of times within any span of `span` microseconds. The times are ascending.
    package static func maximumCount(of times: ArraySlice<Int>, within span: Int) -> Int {
        var first = times.startIndex
        var maximum = 0
        for last in times.indices {
            while times[last] - times[first] >= span { first += 1 }
            maximum = max(maximum, last - first + 1)
        }
        return maximum
    }

    /// The longest time, in microseconds, by which an answer was later than `latency` after its push. For so long the
    /// simulator stood still or was busy with other pushes. What arrived in that time, it has noted as much too late.
    /// - Parameter latency: of the simulator's rules, in microseconds; so long that answers are due all the time.
    package func longestDelay(beyond latency: Int) -> Int {
        var arrivedAt: [String: Int] = [:]
        var longest = 0
        for event in events {
            guard let id = event.apnsID else { continue }
            if event.event == "arrived" {
                arrivedAt[id] = event.at
            } else if event.event == "answered", let before = arrivedAt.removeValue(forKey: id) {
                longest = max(longest, event.at - before - latency)
            }
        }
        return longest
    }

    /// The seconds from each answer with `status` to the next arrival of the same push, grouped by the number of such
    /// answers that the push has had.
    package func gaps(afterStatus status: Int) -> [Int: [Double]] {
        var refusedAt: [String: Int] = [:]
        var refusals: [String: Int] = [:]
        var gaps: [Int: [Double]] = [:]
        for event in events {
            guard let id = event.apnsID else { continue }
            if event.event == "answered", event.status == status {
                refusedAt[id] = event.at
                refusals[id, default: 0] += 1
            } else if event.event == "arrived", let before = refusedAt.removeValue(forKey: id) {
                gaps[refusals[id] ?? 0, default: []].append(Double(event.at - before) / 1e6)
            }
        }
        return gaps
    }
}
