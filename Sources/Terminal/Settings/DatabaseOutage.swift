package import PostgresStore

/// Reports once that the database is away, and once that it is back, for a command that continues meanwhile.
package struct DatabaseOutage {
    private let console: Console
    private var isOn = false

    package init(on console: Console) { self.console = console }

    /// Notes that the database is away, or refuses the call for the moment.
    package mutating func note(_ error: PostgresError) {
        if !isOn {
            console.remark("the database \(error.isThrottled ? "refuses" : "is away"), and is tried again: \(error)")
        }
        isOn = true
    }

    /// Notes that the database has answered.
    package mutating func noteAnswer() {
        if isOn { console.remark("the database answers again") }
        isOn = false
    }
}
