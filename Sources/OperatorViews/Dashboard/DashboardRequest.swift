import FoundationEssentials
package import HTTP1
import PostgresStore
import QueueCore
import Terminal

/// The contents of a request. Each path reads only the members that it needs.
package struct DashboardRequest: Decodable, Sendable {
    package var token: String?
    package var name: String?
    package var action: String?
    package var queue: String?
    package var key: String?
    package var job: String?
    package var user: String?
    package var device: String?
    package var campaign: String?
    package var tenant: String?
    package var matching: String?
    package var reason: String?
    package var since: String?
    package var until: String?

    /// Reads the body of a POST, or the query of a GET.
    package init(_ request: Request) throws(DashboardError) {
        if request.head.method == "POST" {
            do {
                self = try JSONDecoder().decode(DashboardRequest.self, from: Data(request.body))
            } catch {
                throw Self.bad("the body is not a JSON object of texts")
            }
        } else {
            self.init(query: request.head.query ?? "")
        }
    }

    init(query: String) {
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1).map { String($0).replacing("+", with: " ") }
            guard parts.count == 2, let value = parts[1].percentDecoded, !value.isEmpty else { continue }
            switch parts[0] {
            case "queue": queue = value
            case "key": key = value
            case "tenant": tenant = value
            case "matching": matching = value
            case "campaign": campaign = value
            case "reason": reason = value
            case "since": since = value
            case "until": until = value
            default: break
            }
        }
    }

    // MARK: Its parts, or what is wrong with them

    static func bad(_ text: String) -> DashboardError { .init(status: 400, text: text) }

    /// The queue. Throws if it is missing.
    func theQueue() throws(DashboardError) -> QueueName {
        guard let queue = try optionalQueue() else { throw Self.bad("the queue is missing") }
        return queue
    }

    func optionalQueue() throws(DashboardError) -> QueueName? {
        guard let queue, !queue.isEmpty else { return nil }
        do throws(NameError) {
            return try QueueName(parsing: queue)
        } catch {
            throw Self.bad("\(error)")
        }
    }

    func theKey() throws(DashboardError) -> String {
        guard let key, !key.isEmpty else { throw Self.bad("the campaign's key is missing") }
        return key
    }

    func theJob() throws(DashboardError) -> Int64 {
        guard let job, let id = Int64(job), id > 0, id < .max else {
            throw Self.bad("the job's number is missing or wrong")
        }
        return id
    }

    /// The filter for failed jobs.
    func theFilter() throws(DashboardError) -> JobFilter {
        var filter = JobFilter()
        filter.campaign = campaign.flatMap { $0.isEmpty ? nil : $0 }
        if let reason, !reason.isEmpty {
            guard let known = Reason.all.first(where: { $0.text == reason }) else {
                throw Self.bad("“\(reason.prefix(40))” is not a reason of APNs, such as InternalServerError")
            }
            filter.reason = known
        }
        filter.since = try Self.time(since)
        filter.until = try Self.time(until)
        if let since = filter.since, let until = filter.until, since > until {
            throw Self.bad("the end time is before the start time")
        }
        return filter
    }

    private static func time(_ text: String?) throws(DashboardError) -> Date? {
        guard let text, !text.isEmpty else { return nil }
        do throws(InvalidValue) {
            return try Moment.parse(text).date
        } catch {
            throw bad("“\(text.prefix(40))” \(error.reason)")
        }
    }

    /// The subject of a question.
    enum Subject {
        case device(DeviceToken)
        case user(String)
    }

    func theSubject() throws(DashboardError) -> Subject {
        if let device, !device.isEmpty {
            guard let token = try? DeviceToken(hex: device) else {
                throw Self.bad("a device token is written in hexadecimal digits")
            }
            return .device(token)
        }
        guard let user, !user.isEmpty else { throw Self.bad("name a device token or a user") }
        return .user(user)
    }
}

extension String {
    /// The text with percent-encoded bytes decoded (RFC 3986 §2.1); nil if the encoding is invalid.
    var percentDecoded: String? {
        var bytes: [UInt8] = []
        var rest = utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2)
            guard digits.count == 2, digits.allSatisfy({ Unicode.Scalar($0).properties.isASCIIHexDigit }),
                let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
            else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
