import PostgresStore
import TestSupport
import Testing
import Transport

/// Evaluates random filters, valid and broken, over random devices, and compares the results with ``NaiveFilter``.
@Suite(.timeLimit(.minutes(10))) struct `Any text for a filter` {
    /// The time from which `within` counts back: 2026-11-22.
    private static let now = 1_795_305_600

    // MARK: Devices

    private static func device(_ dice: inout SeededGenerator) -> MadeUpDevice {
        var device = MadeUpDevice()
        device.kind = [nil, nil, nil, "alert", "voip"].randomElement(using: &dice)!
        device.user = [nil, nil, "ann", "o'neil", "4711"].randomElement(using: &dice)!
        device.reportedAt = Bool.random(using: &dice) ? now - Int.random(in: 0...90, using: &dice) * 86400 : nil
        device.hasProfile = Int.random(in: 0..<8, using: &dice) > 0
        guard device.hasProfile else { return device }
        device.locale = [nil, "de", "de-AT", "de-DE", "en-GB", "en", "zh-Hant-TW"].randomElement(using: &dice)!
        device.timeZone = (NaiveFilter.timeZones + [nil]).randomElement(using: &dice)!
        device.activityType = [nil, nil, "Match", "o'Ride"].randomElement(using: &dice)!
        device.activity = [nil, nil, "42"].randomElement(using: &dice)!
        device.version = [nil, "2.9", "2.10", "2.10.0", "2.10.1", "3", "3.0.0.1"].randomElement(using: &dice)!
        device.tags = Set(["vip", "beta", "a b", "ärger"].filter { _ in Bool.random(using: &dice) })
        device.attributes["plan"] = [nil, .text("free"), .text("pro"), .text("Team")].randomElement(using: &dice)!
        device.attributes["visits"] = [nil, .number(-3), .number(7), .number(7.5), .text("7")].randomElement(
            using: &dice)!
        device.attributes["staff"] = [nil, .flag(true), .flag(false)].randomElement(using: &dice)!
        device.attributes["last order"] = [nil, .text("2026-10-01"), .text("2026-11-21")].randomElement(using: &dice)!
        device.firstSeenAt = Bool.random(using: &dice) ? now - Int.random(in: 0...300, using: &dice) * 86400 : nil
        device.importedSeenAt = Bool.random(using: &dice) ? now - Int.random(in: 0...60, using: &dice) * 86400 : nil
        return device
    }

    private static func insert(_ devices: [MadeUpDevice], into queue: QueueFixture) async throws {
        func text(_ text: String?) -> String { text.map { "'" + $0.replacing("'", with: "''") + "'" } ?? "null" }
        func time(_ seconds: Int?) -> String { seconds.map { "to_timestamp(\($0))" } ?? "null" }
        func json(_ value: MadeUpDevice.Value) -> String {
            switch value {
            case .text(let text): "\"\(text)\""
            case .number(let number): "\(number)"
            case .flag(let flag): "\(flag)"
            }
        }
        for (index, device) in devices.enumerated() {
            let id = index + 1
            try await queue.run(
                """
                insert into pushq.device (queue_id, id, token, kind, user_key, registered_at)
                values (\(queue.id), \(id), int8send(\(id)), \(text(device.kind)), \(text(device.user)), \
                \(time(device.reportedAt)))
                """)
            guard device.hasProfile else { continue }
            let attributes = device.attributes.map { "\"\($0)\": \(json($1))" }.joined(separator: ", ")
            let tags = device.tags.sorted().map { text($0) }.joined(separator: ", ")
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, locale, time_zone, app_version, tags, attributes,
                                           first_seen_at, seen_at, activity_type, activity)
                values (\(queue.id), \(id), \(text(device.locale)), \(text(device.timeZone)), \(text(device.version)),
                        array[\(tags)]::text[], '{\(attributes)}', \(time(device.firstSeenAt)), \
                \(time(device.importedSeenAt)), \(text(device.activityType)), \(text(device.activity)))
                """)
        }
    }

    // MARK: Filters

    /// A random filter in a random spelling.
    private static func filter(_ dice: inout SeededGenerator, depth: Int = 3) -> String {
        func pick(_ choices: [String]) -> String { choices.randomElement(using: &dice)! }
        func space() -> String { pick([" ", " ", " ", "  ", "\n", "\t", "\u{a0}"]) }
        func keyword(_ word: String) -> String { pick([word, word, word.uppercased()]) }
        func list(_ values: [String]) -> String {
            let chosen = (0..<Int.random(in: 1...3, using: &dice)).map { _ in pick(values) }
            return pick(["", keyword("not") + space()]) + keyword("in") + pick(["", " "]) + "("
                + chosen.joined(separator: ",")
                + ")"
        }
        func equal(_ values: [String]) -> String {
            pick(["=\(pick(values))", "!= \(pick(values))", list(values), keyword("is") + " missing", "is not missing"])
        }
        func ordered(_ values: [String]) -> String { pick(["<", "<=", " > ", ">= "]) + pick(values) }
        if depth > 0, Int.random(in: 0..<5, using: &dice) > 1 {
            let (left, right) = (filter(&dice, depth: depth - 1), filter(&dice, depth: depth - 1))
            return pick([
                "\(left)\(space())\(keyword("and"))\(space())\(right)",
                "\(left)\(space())\(keyword("or"))\(space())\(right)",
                "(\(left))", "not\(space())\(left)", "not (\(left)\(space())and\(space())\(right))",
                "(\(left) or \(right))",
            ])
        }
        let times = ["'2026-10-23'", "'2026-11-01T12:00:00+05:45'", "'2026-11-20 00:00Z'", "'2024-02-29'"]
        let versions = ["2.9", "'2.10'", "2.10.0", "3", "\"3.0\""]
        let texts = ["'pro'", "'team'", "\"free\"", "'7'", "'2026-10-15'", "'it''s'"]
        let numbers = ["7", "-3", "7.50", "100"]
        return pick([
            keyword("locale") + space() + equal(["'de'", "'de_AT'", "'EN'", "\"zh-Hant\""]),
            "time_zone" + space() + equal(NaiveFilter.timeZones.map { "'\($0)'" }),
            "kind" + space() + pick(["= 'alert'", "!='voip'", list(["'alert'", "'widgets'"])]),
            "activity_type" + space() + equal(["'Match'", "'o''Ride'"]),
            "activity" + space() + equal(["'42'", "\"7\""]),
            "user" + space() + equal(["'ann'", "'o''neil'", "\"4711\""]),
            "app_version" + space() + pick([equal(versions), ordered(versions), ordered(versions)]),
            "tag" + space()
                + pick(["'vip'", "'a b'", "\"ärger\"", list(["'vip'", "'beta'"]), "is missing", "is not missing"]),
            pick(["registered", "seen"]) + space()
                + pick([
                    ordered(times),
                    "within \(pick(["1", "20", "30"]))\(space())\(pick(["days", "WEEKS", "week", "hours"]))",
                    "is missing",
                ]),
            "attribute" + space() + pick(["plan", "visits", "\"visits\"", "'last order'", "none"]) + space()
                + pick([equal(texts + numbers), ordered(texts), ordered(numbers)]),
            "attribute staff" + space() + equal(["true", "FALSE"]),
        ])
    }

    /// The text with a few characters changed.
    private static func broken(_ text: String, _ dice: inout SeededGenerator) -> String {
        var scalars = Array(text.unicodeScalars)
        let strange = Array("'\"()=<>!,.-_ 059aeinotz“é;\\%$\u{a0}".unicodeScalars)
        for _ in 0..<Int.random(in: 1...2, using: &dice) {
            let place = Int.random(in: 0..<max(scalars.count, 1), using: &dice)
            switch Int.random(in: 0..<5, using: &dice) {
            case 0 where !scalars.isEmpty: scalars.remove(at: place)
            case 1 where !scalars.isEmpty: scalars[place] = strange.randomElement(using: &dice)!
            case 2: scalars = Array(scalars.prefix(place))
            case 3 where !scalars.isEmpty && ("0"..."9").contains(scalars[place]):
                scalars[place] = Array("0123456789".unicodeScalars).randomElement(using: &dice)!
            case 3: scalars.insert(" ", at: place)
            default: scalars.insert(strange.randomElement(using: &dice)!, at: place)
            }
        }
        var result = String.UnicodeScalarView()
        result.append(contentsOf: scalars)
        return String(result)
    }

    // MARK: Comparison

    private static let evaluation = Statement(
        "evaluation",
        #"""
        select array_to_string(array(
          select id
          from unnest(array['alert', 'voip']) kind
          cross join lateral unnest((
            pushq.filtered_devices($queue, kind, pushq.parse_filter($filter), to_timestamp($now), 0, 1::bigint << 60, 1000, 1000)
            ).ids) id
          order by id), ' ') as ids
        """#)

    /// Returns the devices that the database finds; nil if it refuses the text.
    private func found(_ text: String, _ queue: QueueFixture) async throws -> [Int]? {
        do {
            let row = try await queue.connection.execute(
                Self.evaluation,
                ["queue": .int4(queue.id), "filter": .text(text), "now": .float8(Double(Self.now))]
            ).one()
            return row.text("ids").split(separator: " ").map { Int($0)! }
        } catch {
            guard case .raised(let message, _) = error else { throw error }
            let match = try #require(message.firstMatch(of: /^the filter is wrong at position (\d+): ./), "\(message)")
            let place = try #require(Int(match.output.1))
            #expect((1...text.unicodeScalars.count + 1).contains(place), "\(message) of “\(text)”")
            return nil
        }
    }

    @Test func `means what the documentation says, or is refused with the position of what is wrong`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var (whole, refused, parsedThoughBroken) = (0, 0, 0)
            var dice = SeededGenerator(seed: 12)
            let devices = (0..<120).map { _ in Self.device(&dice) }
            try await Self.insert(devices, into: queue)
            for seed in seeds(300) {
                var dice = SeededGenerator(seed: seed)
                var text = Self.filter(&dice)
                let isBroken = Bool.random(using: &dice)
                if isBroken { text = Self.broken(text, &dice) }
                let expected = (try? NaiveFilter.parse(text, now: Self.now)).map { condition in
                    devices.indices.filter { condition(devices[$0]) }.map { $0 + 1 }
                }
                let found = try await found(text, queue)
                #expect(found == expected, "seed \(seed): \(text)")
                if !isBroken { #expect(expected != nil, "seed \(seed): \(text)") }
                whole += found.map { !$0.isEmpty && $0.count < devices.count } == true ? 1 : 0
                refused += found == nil ? 1 : 0
                parsedThoughBroken += isBroken && found != nil ? 1 : 0
            }
            #expect(
                whole > 50 && refused > 50 && parsedThoughBroken > 10, "\(whole), \(refused), \(parsedThoughBroken)")
        }
    }

    @Test func `holds for a device or, behind not, holds for it: for one of the two, whatever is missing`() async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var dice = SeededGenerator(seed: 12)
            let devices = (0..<60).map { _ in Self.device(&dice) }
            try await Self.insert(devices, into: queue)
            for seed in seeds(60) {
                var dice = SeededGenerator(seed: seed)
                let text = Self.filter(&dice)
                let (those, others) = (try await found(text, queue), try await found("not (\(text))", queue))
                #expect(((those ?? []) + (others ?? [])).sorted() == Array(1...devices.count), "\(text)")
            }
        }
    }
}
