import PostgresStore
import QueueCore
import TestSupport
import Testing

/// Why a device is in no job of a send or campaign.
extension `The trace of a notification` {
    @Test func `tells why a device was not in a campaign's audience`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 5)
            try await queue.run(
                """
                update pushq.device set active = false, inactive_since = now(), inactive_reason = \
                \(Reason.unregistered.code) where token = int8send(2);
                update pushq.device set kind = 'voip' where token = int8send(3)
                """)
            let campaign = try await queue.startCampaign()
            #expect(try await end(try token(1), campaign: "k", queue) == "not yet: fan-out has not put it into a job")
            try await queue.fanOut(campaign)
            try await queue.run(
                "insert into pushq.device (queue_id, token) values (\(queue.id), int8send(9))")
            let reasons = [
                1: "it waits: the queue has no credential", 2: "inactive since", 3: "its token is for voip",
                9: "it was added after the campaign had begun",
            ]
            for (index, text) in reasons {
                #expect(try await end(try token(index), campaign: "k", queue).contains(text), "\(index)")
            }
            #expect(try await end(try token(2), campaign: "k", queue).contains("Unregistered"))
            // A campaign with a filter.
            let filtered = Statement(
                "filtered",
                #"select pushq.start_campaign('\#(QueueFixture.name)', 'f', '{"aps":{"alert":"x"}}', filter => 'tag ''vip''')"#
            )
            try await queue.fanOut(try await queue.connection.execute(filtered).one().int8("start_campaign"))
            #expect(
                try await end(try token(1), campaign: "f", queue)
                    == "it was not in the audience: it does not match the filter “tag 'vip'”")
            // Only the campaign is given: the trace shows its first devices.
            let alone = try await trace(.recipients, campaign: "k", queue)
            #expect(Set(alone.compactMap(\.deviceID)).count == 3, "\(alone)")
            // A campaign with a list.
            _ = try await queue.connection.execute(
                Statement(
                    "for a list",
                    #"select pushq.start_campaign('\#(QueueFixture.name)', 'l', '{"aps":{"alert":"x"}}', tokens => array[encode(int8send(1), 'hex')])"#
                ))
            #expect(try await end(try token(4), campaign: "l", queue).contains("not on the list"))
            #expect(try await end(try token(1), campaign: "l", queue).contains("not been put into a job yet"))
            await #expect(throws: PostgresError.self) { try await end(try token(1), campaign: "none", queue) }
        }
    }

    @Test(arguments: ["", ", tokens => array(select encode(token, 'hex') from pushq.device)"])
    func `does not say that a device was not in an audience of which only the last part is kept`(options: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1200)
            let campaign = try await queue.startCampaign(options: options)
            _ = try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 500)
            let job = try #require(try await queue.claim().first)
            _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
            _ = try await queue.worker.fanOutStep(
                queueID: queue.id, campaignID: campaign, jobLimit: 1, scanLimit: 500)
            #expect(try await end(try token(1), campaign: "k", queue) == "APNs accepted it")
            // The state after the day of the first job was dropped.
            try await queue.run(
                "delete from pushq.body where job_id = \(job.key.jobID); delete from pushq.result")
            let kept = "the recipients of the campaign are no longer all kept"
            #expect(try await end(try token(1), campaign: "k", queue) == kept)
            #expect(try await end(try token(501), campaign: "k", queue) != kept)
            #expect(try await end(try token(1100), campaign: "k", queue).contains("put"))
            try await queue.fanOut(campaign)
            #expect(try await end(try token(1), campaign: "k", queue) == kept)
        }
    }

    @Test func `tells one reason why a device was left out of a campaign at a local time`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            // In zones where the time has passed, no device gets the push. In other zones it is still to come.
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, 'Europe/Vienna' from pushq.device where token = int8send(1)
                """)
            let passed = try await queue.texts(
                "select to_char(now() at time zone 'Europe/Vienna' - interval '5 minutes', 'YYYY-MM-DD HH24:MI')"
            )[0].replacing(" ", with: "T")
            try await queue.fanOut(
                try await queue.startCampaign(
                    options: ", local_time => '\(passed)', if_passed => 'never', catch_up => '0'"))
            #expect(
                try await end(try token(1), campaign: "k", queue)
                    == "it was left out: the campaign's local time had passed in its time zone")
            #expect(
                try await end(try token(2), campaign: "k", queue)
                    == "it was left out: its time zone is not known, and the campaign names no other")
        }
    }

    @Test func `tells of a device on a list what local time means for it, and once the list is gone, what it may mean`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 4)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, case when token = int8send(1) then 'Etc/GMT-10' else 'Etc/GMT+10' end
                from pushq.device
                where token in (int8send(1), int8send(2))
                """)
            let tokens = (1...3).map { "encode(int8send(\($0)), 'hex')" }.joined(separator: ", ")
            let campaign = try await queue.startCampaign(
                options: """
                    , tokens => array[\(tokens)], if_passed => 'never', catch_up => '0',
                    local_time => to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI')
                    """)
            let passed = "it gets nothing: the campaign's local time has passed in its time zone"
            let unknown = "it gets nothing: its time zone is not known, and the campaign names no other"
            let stranger = "it is not on the list that the campaign is for"
            func ends() async throws -> [String] {
                var ends: [String] = []
                for device in 1...4 { ends.append(try await end(try token(device), campaign: "k", queue)) }
                return ends
            }
            let before = try await ends()
            #expect(
                before == [
                    passed, "it is on the campaign's list, and has not been put into a job yet", unknown, stranger,
                ])
            try await queue.fanOut(campaign)
            let between = try await ends()
            #expect(between[1].hasPrefix("not yet: in its time zone, the campaign's local time is at "), "\(between)")
            #expect([0, 2, 3].map { between[$0] } == [passed, unknown, stranger])
            try await queue.run("update pushq.fan_out set start_at = now(), send_by = now()")
            try await queue.fanOut(campaign)
            let after = try await ends()
            let vague = "it was not on the list that the campaign was for, or the campaign's local time left it out"
            #expect([0, 2, 3].map { after[$0] } == [vague, vague, vague])
        }
    }

    /// Devices that a campaign does not reach, and the options of the campaign.
    private static let strangers: [(about: String, options: String, device: String)] = [
        ("of another kind", "filter => 'user is missing'", "token = int8send(2)"),
        ("inactive", "filter => 'user is missing'", "token = int8send(3)"),
        ("of whom the filter is not true", "filter => 'tag ''vip'''", "token = int8send(1)"),
        ("not on the list", "tokens => array[encode(int8send(1), 'hex')]", "token = int8send(4)"),
        (
            "without a time zone", #"local_time => to_char(now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI')"#,
            "token = int8send(1)"
        ),
        ("added later", "filter => 'user is missing'", "token = '\\xaa'"),
        ("that there is not", "filter => 'user is missing'", "false"),
    ]

    @Test func `names the holdout only to devices that are in the audience, and a share only to those that got it`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 10)
            try await queue.run(
                """
                update pushq.device set kind = 'voip' where token = int8send(2);
                update pushq.device set active = false, inactive_since = now() where token = int8send(3)
                """)
            for (number, (about, options, device)) in Self.strangers.enumerated() {
                var told: [[String]] = []
                for holdout in ["0.999999", "0"] {
                    let key = "k\(number) \(holdout)"
                    let shares =
                        #", variants => '[{"name":"b","share":0.0000005,"payload":{"aps":{"alert":"b"}}}]', holdout => \#(holdout)"#
                    try await queue.fanOut(try await queue.startCampaign(key: key, options: ", \(options)\(shares)"))
                    try await queue.run(
                        "update pushq.fan_out set done = true where list_id is not null; delete from pushq.list_member")
                    if device.contains("xaa") {
                        try await queue.run(
                            """
                            delete from pushq.device where \(device);
                            insert into pushq.device (queue_id, token) values (\(queue.id), '\\xaa')
                            """)
                    }
                    let id = try await queue.number(
                        "select coalesce((select id from pushq.device where \(device)), 987654321)")
                    let steps = try await trace(.device(Int64(id)), campaign: key, queue).map(\.what)
                    told.append(steps.dropFirst().map { $0.replacing(key, with: "k") })
                }
                if about == "not on the list" {
                    // The list is no longer kept.
                    #expect(told[0].last?.hasPrefix("it was not on the list that the campaign was for, or") == true)
                } else {
                    #expect(told[0] == told[1], "\(about)")
                }
                #expect(!told.joined().contains { $0.contains("this device gets the share") }, "\(about): \(told)")
            }
            // Devices of the audience, before and after fan-out reaches them.
            let campaign = try await queue.startCampaign(key: "held", options: ", holdout => 0.999999")
            let held = "it is in the holdout of the campaign, which gets nothing"
            #expect(try await end(try token(1), campaign: "held", queue) == held)
            try await queue.fanOut(campaign)
            #expect(try await end(try token(1), campaign: "held", queue) == held)
        }
    }

    @Test(arguments: ["scheduled", "sorting", "sorted", "paused"])
    func `tells that a campaign was cancelled before it reached a device`(state: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, 'Etc/GMT+1' from pushq.device where token <> int8send(3)
                """)
            let options =
                state == "scheduled"
                ? ", start_at => now() + interval '1 day'"
                : ", local_time => to_char(now() at time zone 'UTC', 'HH24:MI')"
            let campaign = try await queue.startCampaign(options: options)
            switch state {
            case "sorting": _ = try await queue.worker.fanOutStep(queueID: queue.id, jobLimit: 40, scanLimit: 2)
            case "sorted": try await queue.fanOut(campaign)
            case "paused": try await queue.run("select pushq.pause_campaign('\(QueueFixture.name)', 'k')")
            default: break
            }
            try await queue.run("select pushq.cancel_campaign('\(QueueFixture.name)', 'k')")
            for device in 1...2 {
                #expect(
                    try await end(try token(device), campaign: "k", queue)
                        == "it was not reached: the campaign was cancelled before")
            }
            #expect(
                try await queue.texts("select why_nobody from pushq.status('\(QueueFixture.name)', \(campaign))")
                    == ["it was cancelled before it had recipients"])
        }
    }

    @Test func `tells which of a user's devices a send is not for`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                """
                update pushq.device set user_key = 'ann';
                update pushq.device set kind = 'voip' where token = int8send(2);
                update pushq.device set active = false, inactive_since = now() - interval '1 hour' where token = int8send(3)
                """)
            let root = Int64(
                try await queue.number(
                    #"select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x"}}', user_key => 'ann')"#))
            let about = "the device is not among the recipients of this send"
            #expect(
                try await end(try token(2), root: root, queue)
                    == "\(about): the message is for tokens for alert, and its token is for voip")
            #expect(try await end(try token(3), root: root, queue).hasPrefix("\(about): it has been inactive since"))
            try await queue.run("update pushq.device set user_key = 'eve' where token = int8send(2)")
            #expect(try await end(try token(2), root: root, queue) == about)
            let why = { (user: String) in
                """
                select s.why_nobody
                from pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', user_key => '\(user)') root
                cross join lateral pushq.status('\(QueueFixture.name)', root) s
                """
            }
            try await queue.run("delete from pushq.device where token = int8send(1)")
            #expect(try await queue.texts(why("eve")) == ["no active device of user “eve” has a token for alert"])
            #expect(try await queue.texts(why("ann")) == ["no device of user “ann” is active in this queue"])
        }
    }
}
