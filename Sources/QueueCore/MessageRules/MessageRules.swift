/// What APNs accepts, checked before anything is queued: APNs would refuse a wrong push for every recipient.
///
/// Errors refuse a message; warnings only inform. `pushq.message_problem` (migrations/functions/message_rules.sql)
/// guards the queue and finds the same errors, in the same order and words.
package enum MessageRules {
    /// The maximum length of a collapse ID in bytes of UTF-8.
    package static let maximumCollapseIDBytes = 64
    /// The longest time in seconds for which APNs stores a push.
    package static let maximumStorageSeconds: Int64 = 30 * 24 * 3600
    /// Larger numbers are taken for milliseconds: as seconds since 1970, this one lies in the year 5138.
    package static let maximumSeconds: Int64 = 100_000_000_000

    /// Checks `message`. Returns errors and warnings in the order in which they are found.
    ///
    /// - Parameter now: seconds since 1970.
    package static func check(_ message: Message, now: Int64) -> [Finding] {
        PayloadCheck.findings(in: message, limit: limit(of: message)) + priority(of: message)
            + expiration(of: message, now: now)
            + collapseID(of: message) + website(of: message)
    }

    /// The first error of ``check(_:now:)``, if any.
    package static func firstError(in message: Message, now: Int64) -> Finding? {
        check(message, now: now).first { $0.severity == .error }
    }

    private static func limit(of message: Message) -> PayloadLimit {
        PayloadLimit(bytes: message.pushType.maximumPayloadBytes, setBy: "push type \(message.pushType)")
    }

    static func priority(of message: Message) -> [Finding] {
        guard let number = message.priority else { return [] }
        guard let priority = Priority(rawValue: number) else {
            return [.error("priority", "priority \(number) is unknown", "use 10, 5 or 1")]
        }
        let rules = message.pushType.rules
        if !rules.priorities.contains(priority) {
            let remedy = "use \(rules.priorities.list)"
            return [.error("priority", "priority \(number) is not allowed for push type \(message.pushType)", remedy)]
        }
        if rules.usualPriorities.contains(priority) { return [] }
        let remedy = "use \(rules.usualPriorities.list)"
        return [.warning("priority", "priority \(number) is not documented for push type \(message.pushType)", remedy)]
    }

    private static func expiration(of message: Message, now: Int64) -> [Finding] {
        switch message.expiration {
        case let seconds? where seconds >= maximumSeconds:
            return [.error("expiration", "expiration \(seconds) is in milliseconds", "use seconds since 1970")]
        case let seconds? where seconds != 0 && seconds < now:
            let remedy = "use 0 for one attempt, or seconds since 1970 that lie ahead"
            return [.error("expiration", "expiration \(seconds) has passed", remedy)]
        case let seconds? where seconds > now + maximumStorageSeconds:
            return [.warning("expiration", "the expiration lies more than 30 days ahead", "APNs keeps nothing longer")]
        case let seconds where message.pushType == .pushtotalk && seconds != 0:
            return [
                .warning("expiration", "a push-to-talk push that comes late is of no use", "set the expiration to 0")
            ]
        case let seconds where message.pushType == .voip && (seconds ?? .max) > now + 60:
            return [
                .warning(
                    "expiration", "a call that comes late is of no use", "set the expiration to 0 or to seconds ahead")
            ]
        default: return []
        }
    }

    private static func collapseID(of message: Message) -> [Finding] {
        guard let identifier = message.collapseID else { return [] }
        let bytes = identifier.utf8.count
        if !(1...maximumCollapseIDBytes).contains(bytes) {
            return [.error("collapse-id", "the collapse ID has \(bytes) bytes", "use 1 to \(maximumCollapseIDBytes)")]
        }
        // RFC 9113 §8.2.1: a field's value has no line break, and no space around it.
        let isClean = identifier.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F }
        if !isClean || identifier.utf8.first == 0x20 || identifier.utf8.last == 0x20 {
            let problem = "the collapse ID has a control character, or a space around it"
            return [.error("collapse-id", problem, "use visible characters")]
        }
        return []
    }

    /// Safari does not show an alert without the key, which APNs accepts (Apple, "Notification Programming Guide for
    /// Websites": it is not optional). What is wrong with any payload is found elsewhere.
    private static func website(of message: Message) -> [Finding] {
        var reader = JSONReader(message.payload)
        guard message.isForWebsite, message.pushType == .alert, let aps = (try? reader.read())?["aps"],
            aps.members != nil, aps["url-args"] == nil
        else { return [] }
        let problem = "aps.url-args is missing, which a push to a website requires"
        let remedy = "set it to the values for its urlFormatString, or to []"
        return [.error("aps.url-args", problem, remedy, at: aps.offset)]
    }
}

extension [Priority] {
    /// `10, 5 or 1`.
    fileprivate var list: String {
        let numbers = map { "\($0.rawValue)" }
        guard let last = numbers.last, count > 1 else { return numbers.joined() }
        return numbers.dropLast().joined(separator: ", ") + " or " + last
    }
}
