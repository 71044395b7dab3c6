package import PostgresStore

/// Says once that the database is away, and once that it is back, for a command that goes on meanwhile.
package struct DatabaseOutage {
    private let console: Console
    private var isOn = false

    package init(on console: Console) { self.console = console }

    /// The database is away.
    package mutating func note(_ error: PostgresError) {
        if !isOn { console.remark("the database is away, and is tried again: \(error)") }
        isOn = true
    }

    /// The database has answered.
    package mutating func noteAnswer() {
        if isOn { console.remark("the database is back") }
        isOn = false
    }
}
