/// An entry in the log of a long-running program.
package struct LogEntry: Sendable {
    package let level: LogLevel
    /// The kind of event: a word that does not change between versions, such as `gateway_unreachable`.
    package let event: String
    /// A sentence for people: what happened, to what, and what to do.
    package let message: String
    /// The values in the sentence, for programs. A key means the same in every event.
    package let details: [(key: String, value: JSON)]
    /// What the entries of a burst have in common, such as an error; nil for an entry that is always written.
    let cause: String?
    /// The events that this one ends, and that end this one.
    let opposites: [String]
    /// Whether what was held back is written before it.
    let isLast: Bool
    /// Set on an entry that stands for similar entries, which were held back.
    var repetition: Repetition?

    /// How many entries were held back, and for how long.
    struct Repetition: Equatable {
        /// The maximum number of queues or tenants that are named.
        static let maximumNames = 10

        let count: Int
        let time: Duration
        /// Whether an earlier entry has already stood for similar ones.
        let isFurther: Bool
        /// The first queues or tenants that the entries are about, beside that of the entry itself.
        var others: [String] = []
    }

    /// The queue or else the tenant that it is about; nil for none.
    var subject: (kind: String, name: String)? {
        for kind in ["queue", "tenant"] {
            if case .string(let name)? = details.first(where: { $0.key == kind })?.value { return (kind, name) }
        }
        return nil
    }

    /// - Parameters:
    ///   - cause: entries of an event whose causes differ only in numbers are written once in a burst.
    ///   - opposites: the events that this one ends.
    ///   - isLast: whether it says that the program, or one of its parts, has ended: readers take it for the last line.
    package init(
        _ level: LogLevel, _ event: String, _ message: String, _ details: [(key: String, value: JSON)] = [],
        cause: String? = nil, opposites: [String] = [], isLast: Bool = false
    ) {
        self.level = level
        self.event = event
        self.message = message
        self.details = details
        self.cause = cause
        self.opposites = opposites
        self.isLast = isLast
    }
}
