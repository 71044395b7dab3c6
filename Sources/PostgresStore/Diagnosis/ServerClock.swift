import FoundationEssentials

extension HealthCheck {
    /// - Parameter now: the clock of this machine.
    static func clock(now: @escaping @Sendable () -> Date = { Date() }) -> HealthCheck {
        HealthCheck(
            "clock", "a clock of PostgreSQL's server that differs from this machine's", needsSchema: false
        ) { connection in
            let asked = now()
            let time = try await connection.execute(.serverClock).one().time("now")
            let answered = now()
            // The server read its clock at some moment between the two.
            let ahead = time.timeIntervalSince(asked) > 0 ? max(0, time.timeIntervalSince(answered)) : 0
            let behind = max(0, asked.timeIntervalSince(time))
            let difference = max(ahead, behind)
            guard difference > 2 else { return [] }
            return [
                HealthFinding(
                    difference > 60 ? .error : .warning, "server",
                    "its clock is \(Words.time(seconds: difference)) \(ahead > 0 ? "ahead of" : "behind") this machine's; "
                        + "pushes are scheduled, and provider tokens are dated, by the server's",
                    .command("timedatectl set-ntp true  # on the machine whose clock is wrong"))
            ]
        }
    }
}

extension Statement {
    fileprivate static let serverClock = Statement("server_clock", "select clock_timestamp() as now")
}
