import QueueCore
import TestSupport
import Testing

@testable import PostgresStore

private let queue = QueueName(tenant: "acme", app: "com.acme.shop", environment: .production)

private func withQueue(_ body: @Sendable @escaping (PostgresConnection) async throws -> Void) async throws {
    try await withDatabase { _, database in
        let store = try await database.connect()
        _ = try await store.createTenant("acme")
        _ = try await store.createApp("com.acme.shop", of: "acme")
        _ = try await store.createQueue(queue)
        try await body(store)
    }
}

@Suite struct `Devices of a queue` {
    @Test func `are registered, deactivated and brought back`() async throws {
        try await withQueue { store in
            let token = try DeviceToken(hex: "00ABcd")
            let id = try await store.registerDevice(token, userKey: "4711", inQueue: queue)
            #expect(try await store.registerDevice(token, inQueue: queue) == id)
            #expect(try await store.setDevice(token, inQueue: queue, isActive: false) == .changed)
            #expect(try await store.setDevice(token, inQueue: queue, isActive: false) == .unchanged)
            let device = try #require(try await store.device(token, inQueue: queue))
            #expect(device.userKey == "4711")
            #expect(!device.isActive)
            #expect(device.inactiveReason == nil)
            #expect(try await store.setDevice(token, inQueue: queue, isActive: true) == .changed)
            #expect(try await store.setDevice(DeviceToken(hex: "ff"), inQueue: queue, isActive: true) == .unknown)
        }
    }

    @Test func `are listed a page at a time`() async throws {
        try await withQueue { store in
            let file = DeviceFile.text((0..<25).map { "\($0 + 10)" }.joined(separator: "\n"))
            _ = try await store.importDevices(from: file, inQueue: queue, reactivates: false) { _ in }
            var seen: [String] = []
            var last: Int64 = 0
            while let end = try await store.devices(
                inQueue: queue, after: last, userKey: nil, includesInactive: false, limit: 10
            ).map({ device in
                seen.append(device.token.hex)
                return device.id
            }).last {
                last = end
            }
            #expect(seen == (0..<25).map { "\($0 + 10)" })
        }
    }
}

@Suite struct `Importing devices` {
    private func contents(_ store: PostgresConnection) async throws -> [String] {
        try await store.devices(inQueue: queue, after: 0, userKey: nil, includesInactive: true, limit: 100)
            .map { "\($0.token.hex) \($0.userKey ?? "-") \($0.isActive)" }.sorted()
    }

    @Test func `adds what is new, changes what is different and leaves the rest alone`() async throws {
        try await withQueue { store in
            let first = try await store.importDevices(
                from: .text("token,user_key\nab,1\ncd,2\nab,1\nef,\n"), inQueue: queue, reactivates: false
            ) { _ in }
            #expect(first == DeviceImportSummary(read: 4, inactive: 0, new: 3, changed: 0, keptByApp: 0))
            let second = try await store.importDevices(
                from: .text("token,user_key\nab,1\ncd,3\nef,\n01,9\n"), inQueue: queue, reactivates: false
            ) { _ in }
            #expect(second == DeviceImportSummary(read: 4, inactive: 0, new: 1, changed: 1, keptByApp: 0))
            #expect(try await contents(store) == ["01 9 true", "ab 1 true", "cd 3 true", "ef - true"])
        }
    }

    @Test func `leaves a device with the user whom its app has registered it for since`() async throws {
        try await withQueue { store in
            _ = try await store.registerDevice(DeviceToken(hex: "ab"), userKey: "alice", inQueue: queue)
            _ = try await store.registerDevice(DeviceToken(hex: "ab"), userKey: "bob", inQueue: queue)
            _ = try await store.registerDevice(DeviceToken(hex: "ef"), userKey: nil, inQueue: queue)
            let summary = try await store.importDevices(
                from: .text("token,user_key\nab,alice\ncd,alice\nef,alice\n"), inQueue: queue, reactivates: true
            ) { _ in }
            #expect(try await contents(store) == ["ab bob true", "cd alice true", "ef - true"])
            #expect(summary.keptByApp == 2)
            #expect(summary.changed == 0)
        }
    }

    @Test func `takes the last line of a token that is there twice`() async throws {
        try await withQueue { store in
            let lines = ["ab,zoe", "cd,adam", "ab,adam", "cd,zoe", "ef,zoe", "ef,"]
            for _ in 1...2 {
                _ = try await store.importDevices(
                    from: .text("token,user_key\n" + lines.joined(separator: "\n")), inQueue: queue, reactivates: false
                ) { _ in }
                #expect(try await contents(store) == ["ab adam true", "cd zoe true", "ef - true"])
            }
        }
    }

    @Test func `keeps one active token of an installation, the registered one first, and counts the others`()
        async throws
    {
        try await withQueue { store in
            func add(_ lines: String) async throws -> Int {
                try await store.importDevices(
                    from: .text("token,user_key,installation,kind,seen_at\n" + lines), inQueue: queue,
                    reactivates: false
                ) { _ in }.replaced
            }
            // Kept are the last line, the one with the latest seen_at, and each line of another kind.
            #expect(try await add("01,ann,A,,\n02,ann,A,,\n03,ann,A,voip,\n") == 1)
            #expect(
                try await add("11,bob,B,,2026-02-01T00:00:00Z\n12,bob,B,,2026-01-01T00:00:00Z\n13,bob,B,,\n") == 2)
            #expect(
                try await contents(store)
                    == ["01 - false", "02 ann true", "03 ann true", "11 bob true", "12 - false", "13 - false"])
            // An older file does not bring the token back. A newer token replaces the imported one.
            #expect(try await add("01,ann,A,,\n02,ann,A,,\n") == 0)
            #expect(try await add("04,ann,A,,\n") == 1)
            #expect(try await contents(store).filter { $0.hasSuffix("ann true") } == ["03 ann true", "04 ann true"])
            // A token that the app has registered stays, whatever the file says.
            try await store.runScript(
                "select pushq.register_device('\(queue)', 'aa', 'eve', installation => 'E')")
            #expect(try await add("ab,eve,E,,\(DeviceFile.inAnHour)\n") == 1)
            #expect(try await contents(store).filter { $0.hasPrefix("a") } == ["aa eve true", "ab - false"])
            // Inactive devices replace no other device, and devices without an installation stay.
            #expect(try await add("21,zoe,,,\n22,zoe,,,\n") == 0)
        }
    }

    @Test func `makes devices inactive that are so in the file, new and known ones`() async throws {
        try await withQueue { store in
            _ = try await store.importDevices(
                from: .text("token,user_key\nab,1\ncd,2\n01,\n"), inQueue: queue, reactivates: false
            ) { _ in }
            _ = try await store.setDevice(DeviceToken(hex: "cd"), inQueue: queue, isActive: false)
            for (reactivates, changed) in [(false, 1), (true, 0)] {
                let summary = try await store.importDevices(
                    from: .text("token,active\nab,false\ncd,false\nef,false\n01,false\n01,true\n"), inQueue: queue,
                    reactivates: reactivates
                ) { _ in }
                #expect(summary.read == 5 && summary.inactive == 4 && summary.keptActive == 0)
                #expect(summary.changed == changed)
                #expect(
                    try await contents(store) == ["01 - true", "ab 1 false", "cd 2 false", "ef - false"])
            }
            let device = try #require(try await store.device(DeviceToken(hex: "ab"), inQueue: queue))
            #expect(device.inactiveSince != nil && device.inactiveReason == nil)
        }
    }

    @Test func `keeps devices active that their app has registered since, and counts them`() async throws {
        try await withQueue { store in
            for token in ["ab", "cd", "ef"] {
                _ = try await store.registerDevice(DeviceToken(hex: token), userKey: nil, inQueue: queue)
            }
            let summary = try await store.importDevices(
                from: .text(
                    "token,active,seen_at\nab,false,\ncd,false,2020-01-01T00:00:00Z\nef,false,\(DeviceFile.inAnHour)\n"),
                inQueue: queue, reactivates: false
            ) { _ in }
            #expect(summary.keptActive == 2 && summary.changed == 1)
            #expect(try await contents(store) == ["ab - true", "cd - true", "ef - false"])
        }
    }

    @Test func `brings inactive devices back only if asked`() async throws {
        try await withQueue { store in
            _ = try await store.importDevices(from: .text("ab\ncd\n"), inQueue: queue, reactivates: false) { _ in }
            _ = try await store.setDevice(DeviceToken(hex: "ab"), inQueue: queue, isActive: false)
            _ = try await store.importDevices(from: .text("ab\ncd\n"), inQueue: queue, reactivates: false) { _ in }
            #expect(try await contents(store) == ["ab - false", "cd - true"])
            let summary = try await store.importDevices(
                from: .text("ab\ncd\n"), inQueue: queue, reactivates: true
            ) { _ in }
            #expect(summary.changed == 1)
            #expect(try await contents(store) == ["ab - true", "cd - true"])
        }
    }

    @Test func `leaves devices inactive that have a newer token or that were logged out or deactivated by hand`()
        async throws
    {
        try await withQueue { store in
            func register(_ token: String, _ user: String, _ installation: String) async throws {
                try await store.runScript(
                    """
                    select pushq.register_device('\(queue)', '\(token)', '\(user)', installation => '\(installation)')
                    """)
            }
            for (token, user) in [("a1", "ann"), ("b1", "bob"), ("c1", "cid"), ("d1", "dan"), ("e1", "eve")] {
                try await register(token, user, user)
            }
            let file = try #require(
                try await store.exportDevices(ofQueue: queue, as: .csv, after: 0, includesInactive: true, limit: 100))
            try await register("a2", "ann", "ann")
            try await store.runScript("select pushq.unregister_device('\(queue)', 'b1')")
            _ = try await store.setDevice(DeviceToken(hex: "c1"), inQueue: queue, isActive: false)
            // The state after APNs has reported the token.
            try await store.runScript(
                """
                update pushq.device set active = false, inactive_since = now(), inactive_reason = 1
                where token = '\\xd1'
                """)
            for changed in [1, 0] {
                let summary = try await store.importDevices(
                    from: .text(ExportFormat.csv.deviceHeader! + "\n" + file.lines), inQueue: queue, reactivates: true
                ) { _ in }
                #expect((summary.new, summary.changed, summary.keptInactive) == (0, changed, 3))
                #expect(
                    try await contents(store)
                        == ["a1 - false", "a2 ann true", "b1 - false", "c1 cid false", "d1 dan true", "e1 eve true"])
            }
        }
    }

    /// A file that contains only tokens and kinds must not count as a file of bare tokens, which would change nothing.
    @Test func `notes what known tokens are for`() async throws {
        try await withQueue { store in
            let kinds = Statement(
                "kinds", "select coalesce(kind, '-') as kind from pushq.device order by token")
            for (file, known) in [("ab\ncd\n", ["-", "-"]), ("token,kind\nab,voip\ncd,\n", ["voip", "-"])] {
                let summary = try await store.importDevices(from: .text(file), inQueue: queue, reactivates: false) {
                    _ in
                }
                #expect(summary.new + summary.changed == (known == ["-", "-"] ? 2 : 1))
                #expect(try await store.execute(kinds).map { $0.text("kind") } == known)
            }
        }
    }

    @Test func `imports nothing of a file with a broken line`() async throws {
        try await withQueue { store in
            let error = await #expect(throws: DeviceFileError.self) {
                try await store.importDevices(from: .text("ab\ncd\nefg\n"), inQueue: queue, reactivates: false) { _ in }
            }
            #expect(error?.line == 3)
            #expect(try await contents(store).isEmpty)
            // The connection is still usable.
            let summary = try await store.importDevices(from: .text("ab\n"), inQueue: queue, reactivates: false) { _ in
            }
            #expect(summary.new == 1)
        }
    }

    /// The pages of a queue's export, seven devices each.
    private func exported(
        _ store: PostgresConnection, _ queue: QueueName, as format: ExportFormat
    ) async throws -> [String] {
        var (lines, last): ([String], Int64) = ([], 0)
        while let page = try await store.exportDevices(
            ofQueue: queue, as: format, after: last, includesInactive: true, limit: 7)
        {
            lines.append(page.lines)
            last = page.last
        }
        return lines
    }

    /// Devices with texts of all kinds; some are registered, some imported, some inactive.
    private static let nasty = #"""
        insert into pushq.device (queue_id, token, user_key, kind, active, inactive_since, registered_at)
        select pushq.queue_id('acme/com.acme.shop/production'), int4send(i),
               (array[null, 'a', ' b ', 'c,d', 'e"f', E'g\nh', E'i\r\nj"', 'ü|[', '{"x"}', ';', E'\t'])[1 + i % 11],
               (array[null, 'alert', 'voip', 'liveactivity-start'])[1 + i % 4], i % 3 > 0,
               case when i % 3 = 0 then now() end, case when i % 5 = 0 then now() - i * interval '1.000001 hours' end
        from generate_series(1, 200) i;
        insert into pushq.profile (queue_id, device_id, installation, activity_type, activity, locale, time_zone,
                                   app_version, tags, attributes, first_seen_at, seen_at)
        select d.queue_id, d.id, case when i % 2 = 0 then 'i,"' || i end, case when i % 7 = 0 then E'Ri\nde' end,
               case when i % 7 = 0 then i::text end, (array[null, 'de', 'zh-Hant-TW'])[1 + i % 3],
               (array[null, 'Asia/Kathmandu', 'UTC'])[1 + i % 3], (array[null, '4', '4.12.1'])[1 + i % 3],
               pushq.set_of((array['{}', '{a}', '{a,b}', '{"x|y",z}', '{"[1]"}', '{"a\"b","c,d"}']::text[])[1 + i % 6]::text[]),
               (array['{}', '{"plan": "pro"}', '{"a": "\"", "b": 1.50, "c": true}', '{"ü": "\n,"}',
                      '{"x": 1e400, "y": -1.5e-300}'])[1 + i % 5]::jsonb,
               case when i % 3 = 0 then now() - interval '1 year 0.000001 seconds' end,
               case when i % 4 = 0 then now() - interval '2 days' end
        from (select d.*, ('x' || encode(token, 'hex'))::bit(32)::int as i from pushq.device d) d
        where i % 10 > 0
        """#

    @Test func `brings to another queue what a queue exports, all of it`() async throws {
        try await withQueue { store in
            try await store.runScript(Self.nasty)
            for (format, app) in [(ExportFormat.csv, "com.one"), (.ndjson, "com.two")] {
                let other = QueueName(tenant: "acme", app: app, environment: .production)
                _ = try await store.createApp(app, of: "acme")
                _ = try await store.createQueue(other)
                let pages = try await exported(store, queue, as: format)
                let file = ([format.deviceHeader].compactMap(\.self) + pages).joined(separator: "\n")
                for _ in 1...2 {
                    let summary = try await store.importDevices(
                        from: .text(file), inQueue: other, reactivates: false
                    ) { _ in }
                    #expect(summary.read == 200 && summary.refused == 0)
                }
                for check in [ExportFormat.csv, .ndjson] {
                    let (before, after) = (
                        try await exported(store, queue, as: check), try await exported(store, other, as: check)
                    )
                    #expect(Set(before.joined(separator: "\n").split(separator: "\n")).count > 150)
                    #expect(
                        before.joined(separator: "\n").split(separator: "\n").sorted()
                            == after.joined(separator: "\n").split(separator: "\n").sorted())
                }
                // A second import into the same queue changes nothing.
                let again = try await store.importDevices(from: .text(file), inQueue: other, reactivates: false) { _ in
                }
                #expect(again.changed == 0 && again.profiles == 0 && again.new == 0)
            }
        }
    }

    @Test func `leaves what the app has said, but for tags and attributes`() async throws {
        try await withQueue { store in
            var said = DeviceProfile()
            said.locale = "de"
            said.tags = ["app"]
            _ = try await store.registerDevice(
                DeviceToken(hex: "ab"), userKey: "ann", kind: "voip", profile: said, inQueue: queue)
            let file =
                "token,kind,locale,app_version,tags,attributes\nab,alert,fr,9,file,\"{\"\"a\"\":1}\"\ncd,voip,fr_ca,9,,\n"
            let summary = try await store.importDevices(from: .text(file), inQueue: queue, reactivates: false) { _ in }
            #expect(summary.profiles == 2)
            let known = try #require(try await store.device(DeviceToken(hex: "ab"), inQueue: queue))
            #expect(known.kind == "voip" && known.profile.locale == "de" && known.profile.appVersion == nil)
            #expect(known.profile.tags == ["file"] && known.profile.attributes == #"{"a": 1}"#)
            let new = try #require(try await store.device(DeviceToken(hex: "cd"), inQueue: queue))
            #expect(new.kind == "voip" && new.profile.locale == "fr-CA" && new.registeredAt == nil)
        }
    }

    @Test func `takes away the tags and attributes of the former user of a device that goes to another one`()
        async throws
    {
        try await withQueue { store in
            func importFile(_ lines: String...) async throws {
                let file = DeviceFile.text("token;user_key;tags;attributes\n" + lines.joined(separator: "\n"))
                _ = try await store.importDevices(from: file, inQueue: queue, reactivates: false) { _ in }
            }
            func known(of token: String) async throws -> String {
                let device = try #require(try await store.device(DeviceToken(hex: token), inQueue: queue))
                return "\(device.userKey ?? "-") \(device.profile.tags ?? []) \(device.profile.attributes ?? "{}")"
            }
            let alice = #"vip;"{""name"":""Alice""}""#
            try await importFile("ab;alice;\(alice)", "cd;alice;\(alice)", "ef;;\(alice)", "01;alice;\(alice)")
            var said = DeviceProfile()
            said.attributes = #"{"name": "Alice"}"#
            _ = try await store.registerDevice(DeviceToken(hex: "23"), userKey: "alice", profile: said, inQueue: queue)

            try await importFile("ab;bob;;", "cd;alice;;", "ef;bob;;", #"01;bob;;"{""name"":""Bob""}""#)
            #expect(try await known(of: "ab") == "bob [] {}", "what is known of Alice is not Bob's")
            #expect(try await known(of: "cd") == #"alice ["vip"] {"name": "Alice"}"#)
            #expect(try await known(of: "ef") == #"bob ["vip"] {"name": "Alice"}"#, "it was nobody's")
            #expect(try await known(of: "01") == #"bob [] {"name": "Bob"}"#)

            try await importFile(#"23;bob;vip;"{""name"":""Bob""}""#)
            #expect(try await known(of: "23") == #"alice [] {"name": "Alice"}"#, "it stays Alice's: her app says so")
        }
    }

    @Test func `names each line that is wrong, and imports the others only if it is to keep going`() async throws {
        try await withQueue { store in
            let file = """
                token,time_zone,kind
                ab,Europe/Vienna,
                abc,,
                cd,Europe/Vien,
                ef,,voice
                01,UTC,voip
                """
            let refused = await #expect(throws: RefusedLines.self) {
                try await store.importDevices(from: .text(file), inQueue: queue, reactivates: false) { _ in }
            }
            #expect(refused?.refusals.map(\.line) == [3, 4, 5])
            #expect(refused?.count == 3)
            #expect(refused?.refusals[1].problem.hasPrefix("the time zone “Europe/Vien” is unknown") == true)
            #expect(try await contents(store) == [])
            let summary = try await store.importDevices(
                from: .text(file), inQueue: queue, reactivates: false, keepsGoing: true
            ) { _ in }
            #expect(summary.refused == 3 && summary.new == 2 && summary.refusals == refused?.refusals)
            #expect(try await contents(store) == ["01 - true", "ab - true"])
        }
    }

    @Test func `counts each line once: as read or as refused, by whatever it is`() async throws {
        try await withQueue { store in
            let file = """
                token,active,time_zone
                ab,true,
                zz,true,
                cd,false,Nowhere/X
                ef,true,Nowhere/X
                01,false,UTC
                """
            let summary = try await store.importDevices(
                from: .text(file), inQueue: queue, reactivates: false, keepsGoing: true
            ) { _ in }
            #expect(summary.read + summary.refused == 5)
            #expect((summary.read, summary.new, summary.inactive) == (2, 2, 1))
            #expect((summary.changed, summary.unchanged, summary.refused) == (0, 0, 3))
        }
    }

    @Test func `refuses what a registration refuses, with the same words`() async throws {
        try await withQueue { store in
            let wrong = [
                ("locale", "german!"), ("locale", "d"), ("locale", "de--AT"), ("time_zone", "CET"),
                ("time_zone", "Europe/Berlin5"), ("app_version", "4.x"), ("app_version", "4."),
                ("app_version", "1.2.3.4.5.6.7.8.9"), ("app_version", "1234567890123456789"), ("kind", "voice"),
                ("kind", "background"), ("installation", String(repeating: "x", count: 201)),
                ("activity", String(repeating: "x", count: 201)),
            ]
            for (column, value) in wrong {
                let error = await #expect(throws: DeviceFileError.self) {
                    try await store.importDevices(
                        from: .text("token,\(column)\nab,\(value)\n"), inQueue: queue, reactivates: false
                    ) { _ in }
                }
                await #expect {
                    try await store.runScript(
                        "select pushq.register_device('\(queue)', 'ab', null, \(column) => '\(value)')")
                } throws: { other in
                    "\(other)".contains(error?.problem ?? "?")
                }
            }
        }
    }

    @Test func `stores a locale and a time zone as a registration does`() async throws {
        try await withQueue { store in
            let lines = [
                ("US/Pacific", "de_AT@calendar=japanese"),
                ("Asia/Calcutta", "zh-Hans-CN-u-ca-chinese-nu-hanidec-rg-uszzzz"),
                ("Asia/Kolkata", "th_TH@calendar=gregorian;numbers=thai"), ("GMT+0200", "en-GB-u-hc-h23"), ("", ""),
            ]
            let file =
                "token;time_zone;locale\n" + lines.indices.map { "0\($0);\(lines[$0].0);\"\(lines[$0].1)\"\n" }.joined()
            _ = try await store.importDevices(from: .text(file), inQueue: queue, reactivates: false) { _ in }
            let zones = ["America/Los_Angeles", "Asia/Kolkata", "Asia/Kolkata", "Etc/GMT-2", nil]
            for (index, line) in lines.enumerated() {
                try await store.runScript(
                    """
                    select pushq.register_device(
                      '\(queue)', '1\(index)', null, time_zone => '\(line.0)', locale => '\(line.1)')
                    """
                )
                let imported = try #require(try await store.device(DeviceToken(hex: "0\(index)"), inQueue: queue))
                let registered = try #require(try await store.device(DeviceToken(hex: "1\(index)"), inQueue: queue))
                #expect(imported.profile.timeZone == zones[index])
                #expect(registered.profile.timeZone == zones[index])
                #expect(imported.profile.locale == registered.profile.locale)
            }
        }
    }

    @Test func `measures attributes as a registration does`() async throws {
        try await withQueue { store in
            let numbers = [
                "0", "-0", "-0.0", "0.50", "1e2", "1E+2", "-1.5e3", "12.345e1", "1e-2", "100e-2", "-0.001e2", "0e3",
                "0e-3",
                "0.0001e3", "1e400", "-1.5e-300", "123456789012345678901234567890",
            ]
            // Random spellings of numbers that can be stored.
            var random = SeededGenerator(seed: 1)
            let anyNumbers = (0..<200).map { _ in
                let digits = { (count: Int) in
                    (0..<count).map { _ in "\(Int.random(in: 0...9, using: &random))" }.joined()
                }
                let whole = Bool.random(using: &random) ? "0" : "1" + digits(.random(in: 0...5, using: &random))
                let decimals =
                    Bool.random(using: &random) ? "" : "." + digits(.random(in: 1...5, using: &random))
                return (Bool.random(using: &random) ? "-" : "") + whole + decimals
                    + ["e", "E", "e+", "e-"].randomElement(using: &random)!
                    + "\(Int.random(in: 0...[9, 300, 16_000].randomElement(using: &random)!, using: &random))"
            }
            // The limits of a 64-bit exponent, and values beyond them. PostgreSQL accepts none of these.
            for exponent in ["9223372036854775807", "-9223372036854775808", "-9223372036854775809", "1e9"] {
                var reader = JSONReader("1e\(exponent)")
                #expect((try? reader.read().storedBytes) ?? .max > 8192, "\(exponent)")
            }
            for number in numbers + anyNumbers + ["\"a\\\"\\\\/\\n\\u0001\\u00fcü😀\"", "true", "false"] {
                for text in [#"{"a":\#(number)}"#, #"{"a":"b","ü":\#(number),"c":true,"ü":\#(number)}"#] {
                    var reader = JSONReader(text)
                    let stored = Statement("stored", "select octet_length($1::text::jsonb::text) as bytes")
                    let bytes = try await store.execute(stored, [.text(text)]).one().int4("bytes")
                    #expect(try reader.read().storedBytes == Int(bytes), "\(text)")
                }
            }
            let members = { (count: Int) -> String in
                (1...count).map { #""a\#($0 + 1000)": 1"# }.joined(separator: ", ")
            }
            for (attributes, bytes) in [
                ("{\(members(682))}", 8184), ("{\(members(683))}", 8196), (#"{"x": 1e8180}"#, 8188),
                (#"{"x": 1e8190}"#, 8198),
            ] {
                let file = DeviceFile.text(#"{"token": "ab", "attributes": \#(attributes.replacing(" ", with: ""))}"#)
                let imported = try? await store.importDevices(from: file, inQueue: queue, reactivates: false) { _ in }
                #expect((imported != nil) == (bytes <= 8192), "\(bytes)")
                let registered: Void? = try? await store.runScript(
                    "select pushq.register_device('\(queue)', 'cd', null, attributes => '\(attributes)')")
                #expect((registered != nil) == (bytes <= 8192), "\(bytes)")
            }
        }
    }

    @Test func `gives way to a device that is registered at the same moment`() async throws {
        try await withDatabase { actor, database in
            let store = try await database.connect()
            let other = try await database.connect()
            _ = try await store.createTenant("acme")
            _ = try await store.createApp("com.acme.shop", of: "acme")
            _ = try await store.createQueue(queue)
            // The registration is not committed, so the import does not see it and then waits for it.
            try await other.runScript("begin; select pushq.register_device('\(queue)', 'ab', 'theirs')")
            let importing = Task {
                _ = actor  // where the connection lives
                return try await store.importDevices(
                    from: .text("token,user_key\nab,ours\ncd,ours\n"), inQueue: queue, reactivates: false
                ) { _ in }
            }
            try await database.waitUntilBlocked("the import waits")
            try await other.runScript("commit")
            #expect(try await importing.value.new == 1)
            #expect(try await contents(store) == ["ab theirs true", "cd ours true"])
        }
    }
}

@Suite struct `Campaigns and sends` {
    private static let message = MessageDraft(payload: #"{"aps":{"alert":"hello"}}"#)

    @Test func `to a list of tokens are the same whatever its order`() async throws {
        try await withQueue { store in
            let first = try await store.startCampaign(
                CampaignDraft(Self.message, key: "k", inQueue: queue), toDevicesIn: .text("ab\ncd\n"))
            let second = try await store.startCampaign(
                CampaignDraft(Self.message, key: "k", inQueue: queue), toDevicesIn: .text("cd\nab\ncd\n"))
            #expect(first == second)
            // A producer may have started the campaign by SQL.
            try await store.runScript(
                #"""
                select pushq.start_campaign('\#(queue)', 'k', '{"aps": {"alert": "hello"}}'::jsonb, tokens => array['CD', 'ab']);
                select pushq.start_campaign('\#(queue)', 'sql', '{"aps":{"alert":"hello"}}', tokens => array['cd', 'ab'])
                """#)
            let third = try await store.startCampaign(
                CampaignDraft(Self.message, key: "sql", inQueue: queue), toDevicesIn: .text("cd\nab\n"))
            #expect(try await store.campaign("sql", ofQueue: queue)?.id == third)
            #expect(try await store.campaigns(ofQueue: queue, limit: 9).count == 2)
            await #expect(throws: PostgresError.self) {
                try await store.startCampaign(
                    CampaignDraft(Self.message, key: "k", inQueue: queue), toDevicesIn: .text("ab\n"))
            }
        }
    }

    @Test func `are paused, resumed and cancelled`() async throws {
        try await withQueue { store in
            _ = try await store.registerDevice(DeviceToken(hex: "ab"), inQueue: queue)
            let id = try await store.startCampaign(CampaignDraft(Self.message, key: "k", inQueue: queue))
            #expect(try await store.campaign("k", ofQueue: queue)?.id == id)
            #expect(try await store.campaign("k", ofQueue: queue)?.state == "running")
            #expect(try await store.order(.pause, campaign: "k", ofQueue: queue))
            #expect(try await store.campaign("k", ofQueue: queue)?.state == "paused")
            #expect(try await store.order(.resume(sendBy: nil), campaign: "k", ofQueue: queue))
            #expect(try await store.order(.cancel, campaign: "k", ofQueue: queue))
            #expect(try await store.campaign("k", ofQueue: queue)?.state == "cancelled")
            #expect(try await !store.order(.pause, campaign: "k", ofQueue: queue))
            #expect(try await store.campaign("other", ofQueue: queue) == nil)
        }
    }

    @Test func `show what waits`() async throws {
        try await withQueue { store in
            let token = try DeviceToken(hex: "ab")
            let root = try await store.send(
                Self.message, to: .tokens([token]), ofQueue: queue, key: "k")
            let again = try await store.send(
                Self.message, to: .tokens([token]), ofQueue: queue, key: "k")
            #expect(root == again)
            let progress = try #require(try await store.progress(ofRoot: root, inQueue: queue))
            #expect(progress.total == 1)
            #expect(!progress.isFinished)
            #expect(try await store.device(token, inQueue: queue)?.id == progress.firstDeviceID)
            let jobs = try await store.jobs(ofQueue: queue, limit: 10)
            #expect(jobs.map(\.recipientCount) == [1])
            #expect(jobs.map(\.state) == ["waiting"])
            #expect(try await store.statistics(of: nil).map(\.waitingRecipients) == [1])
            #expect(try await store.feedback(ofQueue: queue, limit: 10).isEmpty)
            #expect(try await store.workers().isEmpty)
        }
    }
}
