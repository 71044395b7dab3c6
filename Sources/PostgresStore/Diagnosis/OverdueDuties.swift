extension HealthCheck {
    /// - Parameter time: how long after its due time a duty is overdue, or how long after its first failure it is
    ///   failing.
    static func duties(overdueAfter time: Duration = .seconds(900)) -> HealthCheck {
        HealthCheck(
            "duties", "work for the whole fleet, such as upkeep, that no worker does, or that fails again and again"
        ) { connection in
            try await connection.execute(.overdueDuties, ["time": .interval(time)]).map { row in
                if let problem = row.optionalText("problem") {
                    return HealthFinding(
                        .warning, "duty \(row.text("name"))",
                        "has failed each time for \(Words.time(seconds: row.float8("failing"))): \(problem)",
                        .advice("correct what it says; look for duty_failed in the workers' logs"))
                }
                let seconds = row.float8("seconds")
                return HealthFinding(
                    .warning, "duty \(row.text("name"))",
                    seconds > 0
                        ? "was due \(Words.time(seconds: seconds)) ago, and no worker does it"
                        : "was put off for \(Words.time(seconds: -seconds)) when the database's clock was ahead, "
                            + "and no worker does it",
                    .advice("look for duty_failed in the workers' logs; without a worker: pushq work"))
            }
        }
    }
}

extension Statement {
    /// The duties that have work to do: a worker without a master key does not take duties that need one. Not
    /// `figures`, which is due as soon as no worker publishes metrics; that is no reason for a warning. No duty pauses
    /// for more than an hour.
    fileprivate static let overdueDuties = Statement(
        "overdue_duties",
        #"""
        select name, extract(epoch from clock_timestamp() - next_at)::float8 as seconds,
               case when failing_since < clock_timestamp() - $time::interval then problem end as problem,
               coalesce(extract(epoch from clock_timestamp() - failing_since), 0)::float8 as failing
        from pushq.duty
        where (next_at < clock_timestamp() - $time::interval and (deadline is null or deadline < clock_timestamp())
               or next_at > clock_timestamp() + interval '2 hours'
               or failing_since < clock_timestamp() - $time::interval)
          and exists (select from pushq.worker where pushq.is_alive(seen_at))
          and case name
                when 'feedback' then exists (select from pushq.queue where gateway = 'binary')
                when 'webhooks' then exists (select from pushq.webhook)
                else name <> 'figures'
              end
        order by name
        """#)
}
