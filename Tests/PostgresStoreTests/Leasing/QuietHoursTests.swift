import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

/// Compares quiet hours in PostgreSQL with a judge that reads the clock of `Calendar` minute by minute.
@Suite(.timeLimit(.minutes(10))) struct `Quiet hours` {
    /// Zones with half and quarter hours, in both hemispheres, with half an hour of summer time, and on both sides of
    /// the date line.
    private static let zones = [
        "UTC", "Europe/Vienna", "America/New_York", "America/St_Johns", "America/Santiago", "Asia/Kathmandu",
        "Asia/Kolkata", "Australia/Lord_Howe", "Australia/Adelaide", "Pacific/Chatham", "Pacific/Apia",
        "Pacific/Pago_Pago", "Africa/Casablanca",
    ]

    /// Reads the clock of one zone.
    private struct Judge {
        private var calendar = Calendar(identifier: .gregorian)
        private let start: Int
        private let end: Int

        init(_ hours: QuietHours, zone: String) {
            calendar.timeZone = TimeZone(identifier: zone)!
            start = hours.start * 60
            end = hours.end * 60
        }

        func isQuiet(_ date: Date) -> Bool {
            let clock = calendar.dateComponents([.hour, .minute, .second], from: date)
            let second = clock.hour! * 3600 + clock.minute! * 60 + clock.second!
            return start < end ? second >= start && second < end : second >= start || second < end
        }

        /// Returns when the clock next shows a time that is not quiet.
        func end(of date: Date) -> Date? {
            guard isQuiet(date) else { return nil }
            var minute = Date(timeIntervalSince1970: (date.timeIntervalSince1970 / 60).rounded(.down) * 60)
            repeat { minute += 60 } while isQuiet(minute)
            return minute
        }
    }

    private static let until = Statement(
        "quiet until",
        """
        select extract(epoch from pushq.quiet_until(to_timestamp(a), h, z))::float8 as until
        from unnest($1::float8[], $2::text[], $3::text[]) with ordinality u(a, h, z, n) order by n
        """)

    private func randomHours(_ random: inout SeededGenerator) -> QuietHours {
        while true {
            let times = (0..<2).map { _ in Int.random(in: 0..<24 * 12, using: &random) * 5 }
            if let hours = QuietHours(start: times[0], end: times[1]) { return hours }
        }
    }

    @Test(arguments: seeds(4))
    func `end when a clock where the device is shows a time after them, also when clocks change`(seed: UInt64)
        async throws
    {
        var random = SeededGenerator(seed: seed)
        let cases = (0..<1500).map { number -> (at: Date, hours: QuietHours, zone: String) in
            let zone = Self.zones.randomElement(using: &random)!
            var at = Date(timeIntervalSince1970: Double(Int.random(in: 1_767_225_600...1_830_297_600, using: &random)))
            // Two thirds of the cases are near a clock change, if there is one.
            if number % 3 > 0, let change = TimeZone(identifier: zone)!.nextDaylightSavingTimeTransition(after: at) {
                at = change + Double(Int.random(in: -90_000...30_000, using: &random))
            }
            // Half of these have the clock change within their quiet hours, or at the end.
            var hours = randomHours(&random)
            if number % 3 == 2 {
                let end = Int.random(in: 0...40, using: &random) * 5
                let start = (end + 1440 - Int.random(in: 1...90, using: &random) * 5) % 1440
                hours = QuietHours(start: start, end: end) ?? hours
            }
            return (at, hours, zone)
        }
        try await withDatabase { _, database in
            let store = try await database.connect()
            let rows = try await store.execute(
                Self.until,
                [
                    .float8Array(cases.map { $0.at.timeIntervalSince1970 }), .textArray(cases.map(\.hours.text)),
                    .textArray(cases.map(\.zone)),
                ])
            #expect(rows.count == cases.count)
            var quiet = 0
            for (row, one) in zip(rows, cases) {
                let expected = Judge(one.hours, zone: one.zone).end(of: one.at)
                if expected != nil { quiet += 1 }
                #expect(
                    row.optionalFloat8("until") == expected?.timeIntervalSince1970,
                    "\(one.at) \(one.hours.text) in \(one.zone)")
            }
            #expect((300...1200).contains(quiet))
        }
    }

    /// The date of a time in microseconds since 1970.
    private static func date(_ microseconds: Int64) -> Date {
        Date(timeIntervalSince1970: Double(microseconds) / 1_000_000)
    }

    private static let now = Statement("now", "select extract(epoch from now())::float8 as now")

    /// The jobs with their held recipients, and the database's time when they were held.
    private struct World {
        let now: Date
        let jobs: [ClaimedJob]
    }

    private func hold(
        _ queue: QueueFixture, _ claim: () async throws -> [ClaimedJob], workerID: Int64 = 1
    ) async throws -> World {
        var jobs = try await claim()
        for index in jobs.indices { jobs[index].asksQuietHours = true }
        return try await queue.worker.transaction {
            let now = try await queue.worker.execute(Self.now).one().float8("now")
            return World(
                now: Date(timeIntervalSince1970: now),
                jobs: try await queue.worker.heldToQuietHours(jobs, workerID: workerID))
        }
    }

    /// Among the devices with profiles, one in `oneIn` is a recipient, so jobs have dense or sparse devices.
    @Test(arguments: seeds(3), [1, 2, 9])
    func `hold those who have them until their end, spread over the time of the release`(
        seed: UInt64, oneIn: Int
    ) async throws {
        try await withDatabase { _, database in
            var random = SeededGenerator(seed: seed)
            let queue = try await QueueFixture(database, devices: 1200)
            let release = Double(Int.random(in: 1...120, using: &random) * 60)
            let defaultZone = Bool.random(using: &random) ? "Asia/Kathmandu" : nil
            let hours = randomHours(&random)
            try await queue.run(
                """
                insert into pushq.quiet_hours (queue_id, hours, release, time_zone)
                values (\(queue.id), '\(hours.text)', '\(Int(release)) seconds',
                        \(defaultZone.map { "'\($0)'" } ?? "null"));
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id,
                       (array[\(Self.zones.map { "'\($0)'" }.joined(separator: ", ")), null])[1 + (id >> 10) % 14]
                from pushq.device;
                delete from pushq.device where (id >> 10) % \(oneIn) > 0
                """)
            var zones: [Int64: String] = [:]
            for row in try await queue.connection.execute(
                Statement("zones", "select device_id, time_zone from pushq.profile"))
            {
                zones[row.int8("device_id")] = row.optionalText("time_zone") ?? defaultZone
            }
            try await queue.fanOut(try await queue.startCampaign())
            let world = try await hold(queue) { try await queue.claim() }
            var seen: Set<Int64> = []
            var places: [Date: [Double]] = [:]
            for job in world.jobs {
                for device in job.deviceIDs {
                    seen.insert(device)
                    let judge = zones[device].map { Judge(hours, zone: $0) }
                    let end = judge.flatMap { $0.end(of: world.now) ?? $0.end(of: world.now + 10) }
                    switch (job.quietHolds[device], end) {
                    case (nil, nil): break
                    case (.until(let time), let end?):
                        let released = Self.date(time)
                        #expect(
                            released >= end - 0.001 && released < end + release, "\(device) in \(zones[device] ?? "")")
                        #expect(judge.map { $0.isQuiet(released + 0.001) } == false, "\(released) \(hours.text)")
                        places[end, default: []].append(released.timeIntervalSince(end) / release)
                    case (let said, let end):
                        Issue.record(
                            "\(device) in \(zones[device] ?? "-"): \(String(describing: said)), \(String(describing: end))"
                        )
                    }
                }
            }
            #expect(seen.count == 1200 / oneIn || seen.count == 1200 / oneIn + 1)
            // Not all at once: groups of about 25, anywhere within the release.
            for (end, places) in places where places.count >= 75 {
                #expect(Set(places).count >= places.count / 50, "\(places.count) until \(end)")
                #expect(places.max()! - places.min()! > 0.3)
            }
        }
    }

    /// The state after a failover to a server with older time zone data.
    @Test(arguments: ["UTC", "Europe/Atlantis", nil])
    func `are those of the queue's zone where this server does not know the device's, and hold up nobody else`(
        defaultZone: String?
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                """
                insert into pushq.quiet_hours (queue_id, hours, time_zone)
                select \(queue.id), to_char(t - interval '2 hours', 'HH24:MI') || '-' || to_char(t + interval '2 hours', 'HH24:MI'),
                       \(defaultZone.map { "'\($0)'" } ?? "null")
                from (select now() at time zone 'UTC' as t) t;
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, (array['Europe/Atlantis', 'UTC', 'Etc/GMT-12'])[get_byte(token, 7)]
                from pushq.device
                """)
            try await queue.fanOut(try await queue.startCampaign())
            let world = try await hold(queue) { try await queue.claim() }
            let held = try await queue.texts(
                """
                select get_byte(token, 7) from pushq.device
                where id = any ('{\(world.jobs.flatMap(\.quietHolds.keys).map(String.init).joined(separator: ","))}')
                order by 1
                """)
            #expect(held == (defaultZone == "UTC" ? ["1", "2"] : ["2"]))
            let preview = try await queue.texts(
                "select time_zones from pushq.preview_quiet_hours('\(QueueFixture.name)')")
            #expect(preview == ["{UTC}"])
        }
    }

    @Test func `spread many over all of the release, in jobs that are not small`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 5000)
            try await queue.run(
                """
                insert into pushq.quiet_hours (queue_id, hours, time_zone)
                select \(queue.id), to_char(t - interval '2 hours', 'HH24:MI') || '-' || to_char(t + interval '2 hours', 'HH24:MI'),
                       'UTC'
                from (select now() at time zone 'UTC' as t) t
                """)
            try await queue.fanOut(try await queue.startCampaign())
            let world = try await hold(queue) { try await queue.claim() }
            let waits = world.jobs.flatMap { job in
                job.quietHolds.values.map { hold -> Double in
                    if case .until(let time) = hold { Self.date(time).timeIntervalSince(world.now) } else { -1 }
                }
            }.sorted()
            #expect(waits.count == 5000)
            // The default release is fifteen minutes. No minute gets much more than its part.
            #expect(waits.last! - waits.first! > 14 * 60 && waits.last! - waits.first! < 15 * 60)
            for start in stride(from: waits.first!, to: waits.last!, by: 60) {
                let inMinute = waits.count { $0 >= start && $0 < start + 60 }
                #expect((150...600).contains(inMinute) || start + 60 > waits.last!, "\(inMinute) from \(start)")
            }
            let counts = Dictionary(grouping: waits, by: \.self).mapValues(\.count)
            #expect((40...60).contains(counts.count), "\(counts.count)")
            // The same recipients get the same times again.
            let again = try await hold(queue) {
                world.jobs.map { job in
                    var job = job
                    job.quietHolds = [:]
                    return job
                }
            }
            let first = world.jobs.flatMap { job in job.quietHolds.keys.sorted().map { job.quietHolds[$0] } }
            let second = again.jobs.flatMap { job in job.quietHolds.keys.sorted().map { job.quietHolds[$0] } }
            let pairs = zip(first, second).filter { pair in
                guard case (.until(let a)?, .until(let b)?) = pair else { return true }
                return abs(a - b) > 5000
            }
            #expect(second.count == first.count && pairs.isEmpty)
        }
    }

    /// Makes the jobs that are due wait for the end of quiet hours. Each has one recipient. Returns the time of each
    /// device.
    private func postpone(_ queue: QueueFixture) async throws -> [Int64: Int64] {
        var times: [Int64: Int64] = [:]
        var settled: [SettledJob] = []
        for job in try await hold(queue, { try await queue.claim(100, lane: .normal) }).jobs {
            let device = try #require(job.deviceIDs.first)
            guard case .until(let time) = job.quietHolds[device] else {
                Issue.record("device \(device) is not held")
                continue
            }
            #expect(times[device] == nil || times[device] == time)
            times[device] = time
            let again = ContinuingRecipient(
                ordinal: 0, deviceID: device, delay: .zero, attempts: 0, losses: 0, quietUntil: time)
            settled.append(queue.settled(job, other: [0: .retried(.quietHours)], again: [again]))
        }
        #expect(try await queue.worker.endJobs(settled, workerID: 1).keys.count == settled.count)
        return times
    }

    /// Each used to have a time of its own, so the older text often came last.
    @Test func `bring a device what waits for it in the order of the calls, and begin each night with another`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 20)
            try await queue.run(
                """
                insert into pushq.quiet_hours (queue_id, hours, time_zone)
                select \(queue.id), to_char(t - interval '2 hours', 'HH24:MI') || '-' || to_char(t + interval '2 hours', 'HH24:MI'),
                       'UTC'
                from (select now() at time zone 'UTC' as t) t
                """)
            func send(withinHours hours: Int) async throws {
                try await queue.run(
                    """
                    select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', array[encode(token, 'hex')],
                                      send_by => now() + interval '\(hours) hours')
                    from pushq.device
                    """)
            }
            try await send(withinHours: 20)
            let first = try await postpone(queue)
            // Two that one statement puts off. The later one is to be sent sooner.
            for hours in [19, 18] { try await send(withinHours: hours) }
            #expect(try await postpone(queue) == first)
            #expect(first.count == 20 && Set(first.values).count > 15)
            let areInOrder = try await queue.texts(
                """
                select array_agg(j.root_id order by j.run_at, j.id) = array_agg(j.root_id order by j.root_id)
                         and count(*) = 3 and count(distinct j.run_at) = 1
                from pushq.job j
                join pushq.body b on b.queue_id = j.queue_id and b.job_id = j.id
                group by b.device_ids
                """)
            #expect(areInOrder == [String](repeating: "true", count: 20))

            try await queue.run(
                """
                update pushq.quiet_hours
                set hours = split_part(hours, '-', 1) || '-' || to_char(split_part(hours, '-', 2)::time + interval '1 hour', 'HH24:MI')
                """)
            try await send(withinHours: 20)
            let next = try await postpone(queue)
            let order = { (times: [Int64: Int64]) in times.keys.sorted { times[$0]! < times[$1]! } }
            #expect(order(next) != order(first))
        }
    }

    @Test func `never send late: what cannot wait is not sent, and what is due soon after has half of its time`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 40)
            try await queue.run(
                """
                insert into pushq.quiet_hours (queue_id, hours, time_zone)
                select \(queue.id), to_char(t - interval '2 hours', 'HH24:MI') || '-' || to_char(t + interval '2 hours', 'HH24:MI'),
                       'UTC'
                from (select now() at time zone 'UTC' as t) t;
                """)
            let sendBy = { (minutes: Int) in
                """
                , send_by => (select (date_trunc('minute', now() at time zone 'UTC') + interval '2 hours \(minutes) minutes')
                                     at time zone 'UTC')
                """
            }
            for (minutes, isHeld) in [(-1, false), (4, true)] {
                try await queue.fanOut(try await queue.startCampaign(key: "\(minutes)", options: sendBy(minutes)))
                let world = try await hold(queue) { try await queue.claim() }
                #expect(world.jobs.flatMap(\.quietHolds.keys).count == 40)
                for hold in world.jobs.flatMap(\.quietHolds.values) {
                    switch hold {
                    case .forGood: #expect(!isHeld)
                    case .until(let time):
                        #expect(isHeld)
                        // The hours end at a full minute, up to two hours from now.
                        let wait = Self.date(time).timeIntervalSince(world.now)
                        #expect(wait < 7200 + 121, "\(wait)")
                    }
                }
            }
        }
    }

    @Test func `end at their time, whenever the worker writes it and whatever the clock was set to`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            let times: [Int64] = [4_102_444_800_000_000, 4_102_444_800_000_000, 1_000_000]
            let again = times.indices.map {
                ContinuingRecipient(
                    ordinal: $0, deviceID: job.deviceIDs[$0], delay: .seconds(60), attempts: 0, losses: 0,
                    quietUntil: times[$0])
            }
            try await queue.run(
                "update pushq.lease set send_by = '2101-01-01'")
            let outcomes = Dictionary(uniqueKeysWithValues: (0..<3).map { ($0, Outcome.retried(.quietHours)) })
            let settled = queue.settled(job, other: outcomes, again: again)
            #expect(try await queue.worker.endJobs([settled], workerID: 1).keys.count == 1)
            #expect(
                try await queue.texts(
                    """
                    select extract(epoch from run_at)::int8 || ' ' || recipient_count || ' ' || is_quiet
                    from pushq.job order by run_at
                    """
                ) == ["1 1 true", "4102444800 2 true"])
        }
    }

    @Test func `are what is said, and refused where they make no sense`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let read = Statement("read quiet hours", "select pushq.read_quiet_hours($1::text) as hours")
            for (given, stored) in [("7:05-9:30", "07:05-09:30"), ("22:00-08:00", "22:00-08:00"), ("none", "none")] {
                let row = try await queue.connection.execute(read, [.text(given)]).one()
                #expect(row.text("hours") == stored)
            }
            for (given, problem) in [
                ("22-8", "are not quiet hours"), ("24:00-08:00", "are not quiet hours"), ("", "are not quiet hours"),
                ("08:00-08:00", "are not between a minute and 20 hours long"),
                ("08:00-05:00", "are not between a minute and 20 hours long"),
            ] {
                await #expect(throws: PostgresError.self, "\(given): \(problem)") {
                    try await queue.connection.execute(read, [.text(given)])
                }
            }
            // A repetition has the same quiet hours. Other quiet hours make another campaign.
            let id = try await queue.startCampaign(options: ", quiet_hours => '7:00-8:00'")
            #expect(try await queue.startCampaign(options: ", quiet_hours => '07:00-08:00'") == id)
            await #expect(throws: PostgresError.self) {
                try await queue.startCampaign(options: ", quiet_hours => 'none'")
            }
        }
    }

    @Test func `of a campaign that are for nobody, or not for all, are warned of`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            var warnings: [String] = []
            queue.connection.onWarning = { warnings.append("\($0)") }
            func warned(_ options: String) async throws -> [String] {
                warnings = []
                _ = try await queue.startCampaign(key: "\(UInt64.random(in: 0 ... .max))", options: options)
                let started = warnings
                warnings = []
                if !options.isEmpty {
                    try await queue.run("select pushq.preview_quiet_hours('\(QueueFixture.name)'\(options))")
                    #expect(warnings == started, "\(options)")
                }
                return started
            }
            let own = ", quiet_hours => '22:00-08:00'"
            #expect(try await warned("").isEmpty)
            #expect(try await warned(", quiet_hours => 'none'").isEmpty)
            let withoutZone = try await warned(own)
            #expect(withoutZone.count == 1 && withoutZone[0].contains("for devices without a time zone"))
            let urgent = try await warned("\(own), urgent => true")
            #expect(urgent.count == 1 && urgent[0].contains("the campaign is urgent"))
            try await queue.run(
                """
                insert into pushq.quiet_hours (queue_id, hours, time_zone, includes_urgent)
                values (\(queue.id), '22:00-08:00', 'UTC', true)
                """)
            #expect(try await warned("\(own), urgent => true").isEmpty)
        }
    }
}
