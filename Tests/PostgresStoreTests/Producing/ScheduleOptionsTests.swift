import PostgresStore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct `An option of a schedule` {
    private func add(_ options: String, to queue: QueueFixture) async throws {
        try await queue.run(
            """
            select pushq.add_schedule(
              '\(QueueFixture.name)', 's', '@daily', '{"aps":{"alert":"x"}}', options => '\(options)', replaces => true)
            """)
    }

    private static let interval = "write it as an interval, such as \"6 hours\": times count from the start of a run"

    @Test(arguments: [
        (#"{"send_by": 6}"#, "the option “send_by” cannot be “6”; \(interval)"),
        (#"{"send_by": [6]}"#, "the option “send_by” cannot be “[6]”; \(interval)"),
        (#"{"expiration": 1795900000}"#, "the option “expiration” cannot be “1795900000”; \(interval)"),
        (#"{"catch_up": 1}"#, "the option “catch_up” cannot be “1”; \(interval)"),
        (#"{"collapse_id": true}"#, "the option “collapse_id” cannot be “true”; write it as a text, in quotes"),
        (
            #"{"collapse_id": {"a": 1}}"#,
            "the option “collapse_id” cannot be “{\"a\": 1}”; write it as a text, in quotes"
        ),
        (#"{"urgent": "yes"}"#, "the option “urgent” cannot be “yes”; write true or false, without quotes"),
        (#"{"max_rate": "250"}"#, "the option “max_rate” cannot be “250”; write it as a number, without quotes"),
        (#"{"priority": 5.5}"#, "the option “priority” cannot be “5.5”; write it as a whole number, without quotes"),
    ])
    func `is refused with another type than its own, and never read as something else`(
        options: String, problem: String
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let error = await #expect(throws: PostgresError.self) { try await add(options, to: queue) }
            #expect(error?.description == problem)
            #expect(try await queue.number("select count(*) from pushq.schedule") == 0)
        }
    }

    @Test(arguments: [
        "{}", #"{"send_by": "6 hours", "expiration": "1 hour", "max_rate": 250, "urgent": true, "priority": 5}"#,
        #"{"expiration": 0, "stop_at_errors": 0.25, "urgent": false, "collapse_id": "c"}"#, #"{"expiration": "0"}"#,
        #"{"send_by": null, "max_rate": null, "urgent": null}"#,
    ])
    func `of its own type is taken, and so is one that is null`(options: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await add(options, to: queue)
            #expect(try await queue.number("select count(*) from pushq.schedule") == 1)
        }
    }

    @Test(arguments: ["0", #""0""#, #""0s""#, #""0 seconds""#, #""00:00""#])
    func `that is an expiration of zero is 0 in each campaign, in whatever form it is written`(zero: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            // A local time must not be said to come after such an expiration.
            for options in [
                #"{"expiration": \#(zero)}"#,
                #"{"expiration": \#(zero), "local_time": "09:00", "default_zone": "UTC", "max_rate": 10}"#,
            ] {
                try await add(options, to: queue)
                try await queue.run("select pushq.run_schedule('\(QueueFixture.name)', 's')")
            }
            #expect(try await queue.number("select count(*) from pushq.message where expiration = 0") == 2)
        }
    }

    @Test func `that is an expiration of less than a second is never rounded down to the past`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for _ in 1...10 { try await add(#"{"expiration": "0.01 seconds"}"#, to: queue) }
            #expect(try await queue.number("select count(*) from pushq.schedule") == 1)
        }
    }

    /// A number that `pushq.send` passes on as it is.
    @Test func `beside a payload that cannot be kept for its runs is refused with what is wrong`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let error = await #expect(throws: PostgresError.self) {
                try await queue.run(
                    """
                    select pushq.add_schedule(
                      '\(QueueFixture.name)', 's', '@daily', '{"aps":{"alert":"x"},"n":1e131072}')
                    """)
            }
            #expect(
                error?.description
                    == "the payload has a number of too many digits; write a smaller one, or a text")
        }
    }
}
