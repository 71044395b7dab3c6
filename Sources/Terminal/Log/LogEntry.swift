/// One thing that a program that runs for long has to say.
package struct LogEntry: Sendable {
    package let level: LogLevel
    /// What kind of thing it is: a word that does not change between versions, such as `gateway_unreachable`.
    package let event: String
    /// A sentence for people: what happened, to what, and what to do about it.
    package let message: String
    /// The values in the sentence, for programs, each under a key that means the same in every event.
    package let details: [(key: String, value: JSON)]
    /// What the entries of a burst have in common, such as an error; nil for an entry that is always said.
    let cause: String?
    /// The events that this one ends, and that end this one.
    let opposites: [String]
    /// Set on an entry that stands for others like it, which were held back.
    var repetition: Repetition?

    /// How often something was held back.
    struct Repetition: Equatable {
        let count: Int
        let time: Duration
        /// Whether an entry has stood for others like it before.
        let goesOn: Bool
    }

    /// - Parameters:
    ///   - cause: entries of an event whose causes differ in nothing but numbers are said once in a burst.
    ///   - opposites: the events that this one ends.
    package init(
        _ level: LogLevel, _ event: String, _ message: String, _ details: [(key: String, value: JSON)] = [],
        cause: String? = nil, opposites: [String] = []
    ) {
        self.level = level
        self.event = event
        self.message = message
        self.details = details
        self.cause = cause
        self.opposites = opposites
    }
}
