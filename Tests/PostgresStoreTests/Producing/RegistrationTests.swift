import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Registrations` {
    private static let name = QueueFixture.name

    private func device(_ queue: QueueFixture, token: String = "aa") async throws -> Device? {
        try await queue.connection.device(DeviceToken(hex: token), inQueue: Self.name)
    }

    @Test func `keep the user unless they name another, or nobody`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for (argument, user) in [(", 'ann'", "ann"), ("", "ann"), (", user_key => 'bob'", "bob"), (", null", nil)] {
                try await queue.run("select pushq.register_device('\(Self.name)', 'aa'\(argument))")
                #expect(try await device(queue)?.userKey == user)
            }
        }
    }

    @Test func `give a new token the user whom they name, also with a null keep_user`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            for token in ["aa", "bb"] {
                try await queue.run(
                    """
                    select pushq.register_device(
                      '\(Self.name)', '\(token)', 'ann', installation => 'i1', keep_user => null)
                    """)
                #expect(try await device(queue, token: token)?.userKey == "ann", "\(token)")
            }
        }
    }

    @Test func `are taken back: the device is nobody's and gets nothing, until it is registered again`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa', 'ann')")
            let takeBack = "select pushq.unregister_device('\(Self.name)', 'aa')::int"
            #expect(try await queue.number(takeBack) == 1)
            #expect(try await queue.number(takeBack) == 0)
            let gone = try #require(try await device(queue))
            #expect(!gone.isActive)
            #expect(gone.userKey == nil)
            #expect(try await queue.number("select pushq.unregister_device('\(Self.name)', 'ff')::int") == 0)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa')")
            #expect(try await device(queue)?.isActive == true)
            #expect(try await device(queue)?.userKey == nil)
        }
    }

    @Test func `are of the moment of the call, however long ago their transaction began`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa')")
            try await queue.run("begin")
            let reported = Int64(try await queue.number("select extract(epoch from clock_timestamp()) * 1000000"))
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa'); commit")
            try await queue.run(
                """
                insert into pushq.feedback_record (queue_id, token, reason, reported_at)
                values (\(queue.id), '\\xaa', \(Reason.unregistered.code), to_timestamp(\(Double(reported) / 1_000_000)))
                """)
            #expect(try await queue.worker.actOnFeedback() == (acted: 1, deactivated: 0))
            #expect(try await device(queue)?.isActive == true)
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `What an app says of its device` {
    private static let name = QueueFixture.name
    private static let all = """
        locale => 'de_AT', time_zone => 'Europe/Vienna', app_version => '4.12.1', tags => array['vip', 'beta', 'vip'], \
        attributes => '{"plan": "pro", "visits": 7, "trial": false}', installation => 'i1'
        """
    /// The same profile as it is stored. A call with it needs only one look-up.
    private static let again = """
        locale => 'de-AT', time_zone => 'Europe/Vienna', app_version => '4.12.1', tags => array['beta', 'vip'], \
        attributes => '{"plan": "pro", "visits": 7, "trial": false}', installation => 'i1'
        """

    /// - Parameter login: the login of the tenant that calls; nil: an operator does.
    private func register(
        _ token: String, _ said: String, user: String? = "ann", as login: String? = nil, in queue: QueueFixture
    ) async throws {
        let user = user.map { "'\($0)'" } ?? "null"
        let role = login.map { "set local role \($0); " } ?? ""
        try await queue.run("\(role)select pushq.register_device('\(Self.name)', '\(token)', \(user), \(said))")
    }

    private func device(_ token: String, in queue: QueueFixture) async throws -> Device {
        try #require(try await queue.connection.device(DeviceToken(hex: token), inQueue: Self.name))
    }

    /// A text that changes with each new version of a device's rows.
    private func versions(_ queue: QueueFixture) async throws -> String {
        try await queue.connection.execute(
            Statement(
                "versions",
                "select concat(d.ctid, p.ctid) as versions from pushq.device d join pushq.profile p on p.device_id = d.id"
            )
        ).one().text("versions")
    }

    @Test func `is kept in one form, and shown with it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, in: queue)
            let profile = try await device("aa", in: queue).profile
            #expect(profile.locale == "de-AT")
            #expect(profile.timeZone == "Europe/Vienna")
            #expect(profile.appVersion == "4.12.1")
            #expect(profile.tags == ["beta", "vip"])
            #expect(profile.attributes == #"{"plan": "pro", "trial": false, "visits": 7}"#)
            #expect(profile.installation == "i1")
            #expect(profile.firstSeenAt != nil && profile.seenAt != nil)
        }
    }

    @Test func `writes nothing if it is as before, but for the time after six hours`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, in: queue)
            let before = try await versions(queue)
            for said in [Self.all, Self.again, "installation => 'i1'"] { try await register("aa", said, in: queue) }
            #expect(try await versions(queue) == before)
            try await queue.run("update pushq.device set registered_at = now() - interval '7 hours'")
            try await register("aa", Self.again, in: queue)
            #expect(
                try await queue.number(
                    "select count(*) from pushq.device where registered_at > now() - interval '1 hour'") == 1)
            for change in [
                "locale => 'de'", "time_zone => ''", "app_version => '4.12.2'", "tags => '{}'", "tags => array['beta']",
                #"attributes => '{"plan": "team"}'"#, "activity_type => 'Match'", "activity => 'a1'", "kind => 'voip'",
                "user_key => 'bob'",
            ] {
                let before = try await versions(queue)
                let user = change.hasPrefix("user_key") ? "" : "user_key => 'ann', "
                try await queue.run(
                    "select pushq.register_device('\(Self.name)', 'aa', \(user)\(change), installation => 'i1')")
                #expect(try await versions(queue) != before, "\(change)")
            }
            // A registration without an installation may come from a new one, so its time is stored.
            let last = try await versions(queue)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa')")
            #expect(try await versions(queue) != last)
        }
    }

    @Test(arguments: [
        ("AA", "locale => 'de-AT', installation => 'i1'"), ("<aa>", "installation => 'i1'"),
        ("aa", "tags => array['vip', 'beta'], installation => 'i1'"), ("aa", "keep_user => true, installation => 'i1'"),
        ("aa", "kind => null, attributes => null, activity => '', activity_type => '', installation => 'i1'"),
    ])
    func `writes nothing if it only is written otherwise`(token: String, said: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, in: queue)
            let before = try await versions(queue)
            try await register(token, said, user: said.hasPrefix("keep_user") ? "bob" : "ann", in: queue)
            #expect(try await versions(queue) == before)
        }
    }

    @Test func `counts as a call where it writes nothing, and is refused like others`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let login = "shop_\(database.name)"
            try await queue.run("create role \(login) login")
            try await queue.connection.grantTenant("acme", to: login, isReadOnly: false)
            try await register("aa", Self.all, in: queue)
            let before = try await versions(queue)
            try await queue.run("insert into pushq.tenant_quota (tenant_id, max_calls) select id, 1 from pushq.tenant")
            try await register("aa", Self.again, as: login, in: queue)
            #expect(try await queue.number("select count(*) from pushq.call") == 1)
            // A call in each half of a second that follows, so that one is in the current second, however long the
            // test takes.
            try await queue.run(
                """
                insert into pushq.call (tenant_id, called_at)
                select t.id, now() + i * interval '0.5 seconds' from pushq.tenant t, generate_series(1, 1200) i
                """)
            await #expect {
                try await register("aa", Self.again, as: login, in: queue)
            } throws: { error in
                "\(error)".contains("tenant “acme” has reached its limit of 1 calls a second")
            }
            #expect(try await versions(queue) == before)
        }
    }

    @Test(arguments: [
        ("locale => 'german!'", "is not a language tag"), ("time_zone => 'Mars'", "the time zone “Mars” is unknown"),
        ("app_version => 'x'", "is not numbers with dots"), ("tags => array['']", "a tag has 1 to 100 bytes"),
        ("attributes => '[]'", "the attributes are not a JSON object"), ("kind => ''", "the kind “” is unknown"),
    ])
    func `is refused where it is wrong, though all the rest is as before`(
        wrong: String, problem: String
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, in: queue)
            let error = await #expect(throws: PostgresError.self) {
                try await register("aa", "\(wrong), installation => 'i1'", in: queue)
            }
            #expect(error?.description.contains(problem) == true, "\(error as Any)")
        }
    }

    @Test func `brings an inactive device back, however short the time`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, in: queue)
            try await queue.run("select pushq.set_device('\(Self.name)', 'aa', false)")
            try await register("aa", Self.again, in: queue)
            #expect(try await device("aa", in: queue).isActive)
        }
    }

    @Test func `stays where nothing is said of it, and goes where what is said is empty`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, in: queue)
            try await register("aa", "app_version => '5'", in: queue)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa')")
            var profile = try await device("aa", in: queue).profile
            #expect(profile.locale == "de-AT" && profile.tags == ["beta", "vip"] && profile.appVersion == "5")
            try await register("aa", "locale => '', tags => '{}', attributes => '{}', time_zone => ''", in: queue)
            profile = try await device("aa", in: queue).profile
            #expect(profile.locale == nil && profile.tags == [] && profile.attributes == nil && profile.timeZone == nil)
            #expect(profile.installation == "i1")
        }
    }

    @Test func `of another user is not this one's`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            // A profile reported before the login belongs to the person who logs in next.
            try await register("aa", Self.all, user: nil, in: queue)
            try await register("aa", "installation => 'i1'", user: "ann", in: queue)
            #expect(try await device("aa", in: queue).profile.tags == ["beta", "vip"])
            try await register("aa", "tags => array['new'], installation => 'i1'", user: "bob", in: queue)
            let bobs = try await device("aa", in: queue).profile
            #expect(bobs.tags == ["new"] && bobs.attributes == nil && bobs.locale == "de-AT")
            try await queue.run("select pushq.unregister_device('\(Self.name)', 'aa')")
            #expect(try await device("aa", in: queue).profile.tags == [])
        }
    }

    @Test func `moves to a newer token of the installation, and the older one gets nothing more`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, in: queue)
            try await register("ab", "kind => 'voip', installation => 'i1'", in: queue)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'bb', null, installation => 'i1', keep_user => true)
                """)
            let (older, newer) = (try await device("aa", in: queue), try await device("bb", in: queue))
            #expect(!older.isActive && older.userKey == nil && older.profile.tags == [])
            #expect(newer.isActive && newer.userKey == "ann" && newer.profile.tags == ["beta", "vip"])
            #expect(try await device("ab", in: queue).isActive, "of another kind")
            // A restored phone may return to its older token.
            try await register("aa", "installation => 'i1'", in: queue)
            #expect(try await device("aa", in: queue).isActive)
            #expect(try await !device("bb", in: queue).isActive)
        }
    }

    @Test(arguments: [false, true])
    func `moves to a newer token that a send or a file has named before, and so does the user`(isImported: Bool)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, user: "ann", in: queue)
            if !isImported {
                try await queue.run(
                    #"select pushq.send('\#(Self.name)', '{"aps":{"alert":"x"}}', array['bb'])"#)
            } else {
                try await queue.run(
                    """
                    insert into pushq.device (queue_id, token, user_key) values (\(queue.id), '\\xbb', 'bob');
                    insert into pushq.profile (queue_id, device_id, tags)
                    select queue_id, id, '{bobs}' from pushq.device where user_key = 'bob'
                    """)
            }
            for _ in 1...2 {
                try await register("bb", "installation => 'i1', keep_user => true", user: nil, in: queue)
                let (older, newer) = (try await device("aa", in: queue), try await device("bb", in: queue))
                #expect(!older.isActive && older.userKey == nil)
                #expect(newer.isActive && newer.userKey == "ann")
                #expect(newer.profile.tags == ["beta", "vip"], "bob's are not hers")
            }
        }
    }

    /// Users of a newer token, each with the tags and the badge that it gets.
    private static let heirs: [(String, [String], String?)] = [
        ("ann", ["beta", "vip"], "3"), ("ben", ["bens"], "5"), ("cid", [], nil),
    ]

    /// A token that APNs has reported as dead keeps its installation, and an import may bring another one meanwhile.
    @Test(arguments: heirs)
    func `moves from each older token of the installation, and nothing stays there for whoever has it later`(
        user: String, tags: [String], badge: String?
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, user: "ann", in: queue)
            try await queue.run(
                """
                update pushq.device
                set active = false, inactive_since = now(), inactive_reason = \(Reason.unregistered.code);
                insert into pushq.device (queue_id, token, user_key) values (\(queue.id), '\\xbb', 'ben');
                insert into pushq.profile (queue_id, device_id, installation, locale, tags, attributes)
                select queue_id, id, 'i1', 'fr', '{bens}', '{"plan": "free"}' from pushq.device where user_key = 'ben';
                insert into pushq.badge (queue_id, device_id, count)
                select queue_id, id, case user_key when 'ann' then 3 else 5 end from pushq.device
                """)
            try await register("cc", "installation => 'i1'", user: user, in: queue)
            let newer = try await device("cc", in: queue)
            #expect(newer.isActive && newer.profile.tags == tags)
            #expect((newer.profile.attributes == nil) == (user == "cid"))
            #expect(newer.profile.locale == "de-AT", "of the token that was registered last")
            let badges = try await queue.texts("select count from pushq.badge where count > 0")
            #expect(badges == [badge].compactMap(\.self))
            #expect(try await queue.number("select count(*) from pushq.profile") == 1)
            for token in ["aa", "bb"] {
                #expect(try await device(token, in: queue).userKey == nil, "\(token)")
                try await register(token, "installation => 'i\(token)'", user: "zoe", in: queue)
                let profile = try await device(token, in: queue).profile
                #expect(profile.tags == [] && profile.attributes == nil && profile.locale == nil, "\(token)")
            }
        }
    }

    /// A backend may learn of a token before the app says of which installation it is, and who has logged in.
    @Test(arguments: ["ann", "bob"])
    func `moves to a newer token that was registered once without the installation`(user: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, user: "ann", in: queue)
            let firstSeen = "select first_seen_at from pushq.profile where installation = 'i1'"
            let before = try await queue.texts(firstSeen)
            try await queue.run("select pushq.register_device('\(Self.name)', 'bb')")
            try await register("bb", "installation => 'i1'", user: user, in: queue)
            let newer = try await device("bb", in: queue).profile
            #expect(newer.locale == "de-AT" && newer.timeZone == "Europe/Vienna" && newer.appVersion == "4.12.1")
            #expect(newer.tags == (user == "ann" ? ["beta", "vip"] : []))
            #expect((newer.attributes != nil) == (user == "ann"))
            #expect(try await queue.texts(firstSeen) == before)
            #expect(try await queue.number("select count(*) from pushq.profile") == 1)
        }
    }

    @Test func `of an older token gives way to what is known of the newer one, and to what is said now`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, in: queue)
            try await register("bb", "locale => 'fr', app_version => '4', tags => array['new']", in: queue)
            try await register("bb", "app_version => '5', time_zone => '', installation => 'i1'", in: queue)
            let newer = try await device("bb", in: queue).profile
            #expect(newer.locale == "fr" && newer.tags == ["new"], "its own")
            #expect(newer.attributes == #"{"plan": "pro", "trial": false, "visits": 7}"#, "the older token's")
            #expect(newer.appVersion == "5" && newer.timeZone == nil)
        }
    }

    /// A file has told whose the newer token is, and nothing else. The older token's tags and badge went to that user.
    @Test(arguments: ["ann", "bob"], [false, true])
    func `moves with the badge to a newer token, if the older one is of the same user`(user: String, keepsUser: Bool)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, user: "ann", in: queue)
            try await queue.run(
                """
                select pushq.set_badge('\(Self.name)', token => 'aa', badge => 3);
                insert into pushq.device (queue_id, token, user_key) values (\(queue.id), '\\xbb', '\(user)')
                """)
            try await register("bb", "installation => 'i1', keep_user => \(keepsUser)", user: user, in: queue)
            let newer = try await device("bb", in: queue)
            // No app had registered the newer token, so `keep_user` keeps the older token's user.
            let isSame = user == "ann" || keepsUser
            #expect(newer.userKey == (isSame ? "ann" : "bob"))
            #expect(newer.profile.tags == (isSame ? ["beta", "vip"] : []))
            #expect((newer.profile.attributes != nil) == isSame)
            #expect(newer.profile.locale == "de-AT", "the phone is the same")
            #expect(try await queue.texts("select count from pushq.badge") == (isSame ? ["3"] : []))
        }
    }

    @Test func `leaves one token of an installation that reports two at the same moment`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            let other = try await database.connect()
            try await register("aa", "installation => 'i1'", in: queue)
            try await queue.run("begin")
            try await register("bb", "installation => 'i1'", in: queue)
            let second = Task {
                _ = actor  // where the connection lives
                try await other.runScript(
                    "select pushq.register_device('\(Self.name)', 'cc', 'ann', installation => 'i1')")
            }
            try await database.waitUntilBlocked("the second waits")
            try await queue.run("commit")
            try await second.value
            #expect(try await queue.number("select count(*) from pushq.device where active") == 1)
            #expect(try await device("cc", in: queue).isActive)
        }
    }

    /// The second call finds the token unchanged, waits for the first call, and changes nothing.
    @Test(arguments: [true, false])
    func `leaves one token of an installation whose older one is reported again at the same moment`(isActive: Bool)
        async throws
    {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            let other = try await database.connect()
            try await register("aa", "installation => 'i1'", user: nil, in: queue)
            try await queue.run(
                """
                update pushq.device
                set registered_at = now() - interval '7 hours', active = \(isActive),
                    inactive_since = case when not \(isActive) then now() end
                """)
            try await queue.run("begin")
            try await register("bb", "installation => 'i1'", user: nil, in: queue)
            let second = Task {
                _ = actor  // where the connection lives
                try await other.runScript(
                    "select pushq.register_device('\(Self.name)', 'aa', null, installation => 'i1')")
            }
            try await database.waitUntilBlocked("the second waits")
            try await queue.run("commit")
            try await second.value
            #expect(try await queue.number("select count(*) from pushq.device where active") == 1)
            let last = try await device("aa", in: queue)
            #expect(last.isActive && last.profile.installation == "i1")
        }
    }

    @Test(arguments: [
        ("locale => 'german!'", "the locale “german!” is not a language tag: use one such as de or de-AT"),
        ("locale => '@rg=dezzzz'", "the locale “@rg=dezzzz” is not a language tag"),
        ("time_zone => 'CEST-2'", "the time zone “CEST-2” is unknown: use a name of the IANA database"),
        ("time_zone => 'Etc/GMT+13'", "the time zone “Etc/GMT+13” is unknown: use a name of the IANA database"),
        ("time_zone => 'Europe/Berlin5'", "the time zone “Europe/Berlin5” is unknown"),
        ("app_version => '4.x'", "the app version “4.x” is not numbers with dots: use one such as 4.12.1"),
        (
            "app_version => '1.1234567890123456789'",
            "the app version “1.1234567890123456789” has more than 8 numbers, or one of more than 18 digits"
        ),
        ("tags => array['']", "a tag has 1 to 100 bytes"),
        ("tags => array['a', null]", "the tags are not a list of texts"),
        ("attributes => '[1]'", "the attributes are not a JSON object"),
        (#"attributes => '{"a": {"b": 1}}'"#, "the attribute “a” is not a text, a number, true or false"),
        (#"attributes => '{"a": null}'"#, "the attribute “a” is not a text, a number, true or false"),
        ("kind => 'voice'", "the kind “voice” is unknown: use alert, voip,"),
    ])
    func `is refused in one line where it is wrong`(said: String, problem: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            await #expect {
                try await register("aa", said, in: queue)
            } throws: { error in
                "\(error)".contains(problem)
            }
        }
    }

    @Test(arguments: [
        ("", "the user key is empty: give it 1 to 200 bytes, or null for no user"),
        (String(repeating: "x", count: 32_768), "the user key has 32768 bytes: use at most 200"),
    ])
    func `is refused with a user key that cannot be stored`(user: String, problem: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            await #expect {
                try await register("aa", "locale => 'de'", user: user, in: queue)
            } throws: { error in
                "\(error)".contains(problem)
            }
        }
    }

    @Test(arguments: ["UTC", "Asia/Kathmandu", "America/Argentina/Ushuaia", "America/Port-au-Prince", "Etc/GMT+12"])
    func `may be any zone of the database`(zone: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", "time_zone => '\(zone)'", in: queue)
            #expect(try await device("aa", in: queue).profile.timeZone == zone)
        }
    }

    @Test(arguments: [
        ("US/Pacific", "America/Los_Angeles"), ("Japan", "Asia/Tokyo"), ("GMT+0200", "Etc/GMT-2"),
        ("GMT-1200", "Etc/GMT+12"), ("GMT+0000", "GMT"), ("GMT0", "GMT"), ("Etc/GMT", "GMT"), ("Etc/UTC", "UTC"),
        ("Asia/Calcutta", "Asia/Kolkata"), ("Europe/Kiev", "Europe/Kyiv"), ("Pacific/Ponape", "Pacific/Pohnpei"),
        ("Iceland", "Atlantic/Reykjavik"),
    ])
    func `may name the zone in another way`(zone: String, stored: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", "time_zone => '\(zone)', installation => 'i1'", in: queue)
            let before = try await versions(queue)
            #expect(try await device("aa", in: queue).profile.timeZone == stored)
            try await register("aa", "time_zone => '\(zone)', installation => 'i1'", in: queue)
            #expect(try await versions(queue) == before)
        }
    }

    @Test func `dated ahead, from before the clock was corrected, is dated anew, and wins over no newer one`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", "installation => 'i1'", in: queue)
            try await queue.run("update pushq.device set registered_at = now() + interval '3 hours'")
            try await register("aa", "installation => 'i1'", in: queue)
            #expect(
                try await queue.number("select count(*) from pushq.device where registered_at <= clock_timestamp()")
                    == 1)
            try await queue.run("update pushq.device set registered_at = now() + interval '3 hours'")
            try await register("bb", "locale => 'de'", in: queue)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, installation)
                select queue_id, id, 'i1' from pushq.device
                on conflict (queue_id, device_id) do update set installation = 'i1';
                select pushq.keep_one_token(\(queue.id), '{i1}')
                """)
            #expect(
                try await queue.texts("select encode(token, 'hex') from pushq.device where active") == ["bb"])
        }
    }

    @Test(arguments: ["Europe/Atlantis", "America/Indiana/Pawnee", "GMT+0530", "GMT+1500", "right/UTC"])
    func `has no zone if the server does not know it, and is registered all the same`(zone: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", Self.all, in: queue)
            try await register("bb", "time_zone => '\(zone)', installation => 'i1'", in: queue)
            let device = try await device("bb", in: queue)
            #expect(device.isActive && device.profile.timeZone == nil && device.profile.locale == "de-AT")
        }
    }

    @Test(arguments: [
        ("en_US@rg=dezzzz", "en-US"), ("th_TH@calendar=gregorian;numbers=thai", "th-TH"),
        ("en-GB-u-hc-h23", "en-GB-u-HC-h23"),
        ("zh-Hans-CN-u-ca-chinese-nu-hanidec-rg-uszzzz", "zh-Hans-CN"),
    ])
    func `may have a locale with what the user has changed`(locale: String, stored: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await register("aa", "locale => '\(locale)'", in: queue)
            #expect(try await device("aa", in: queue).profile.locale == stored)
        }
    }
}
