import Foundation
import QueueCore
import Testing

/// Compares the tables in `docs/apns.md`, which are generated from the code, and prints a changed row as it must be.
@Suite struct `The page on APNs` {
    private let page: String
    private let lines: Set<Substring>
    private let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    init() throws {
        page = try String(contentsOf: root.appending(path: "docs/apns.md"), encoding: .utf8)
        lines = Set(page.split(separator: "\n"))
    }

    private func expect(_ rows: [String]) {
        for row in rows { #expect(lines.contains(row[...]), "docs/apns.md should have the line: \(row)") }
    }

    @Test func `has a row for every reason`() {
        expect(
            Reason.table.dropFirst().map { row in
                let status = row.status == 0 ? "–" : "\(row.status)"
                let also = [
                    row.replacesConnection ? "connection replaced" : nil,
                    row.blamesMessage ? "blames the message" : nil,
                ].compactMap { $0 }.joined(separator: ", ")
                return "| \(status) | `\(row.text)` | \(row.action) | \(also) |"
            })
        let rows = lines.count { $0.wholeMatch(of: /\| (\d{3}|–) \| `\w+` \| \w+ \| .*\|/) != nil }
        #expect(rows == Reason.table.count - 1, "and none for what is no reason")
    }

    @Test func `has a row for every reason of a broadcast`() {
        expect(
            Reason.broadcasts.map { row in
                "| `\(row.reason.text)` | \(row.reason.row.status) | \(row.action) | \(row.meaning) |"
            })
        let rows = lines.count { $0.wholeMatch(of: /\| `\w+` \| \d{3} \| \w+ \| .*\|/) != nil }
        #expect(rows == Reason.broadcasts.count, "and none for what is no reason")
    }

    @Test func `has a row for every push type`() {
        expect(
            PushType.allCases.map { type in
                let rules = type.rules
                let refused = Priority.allCases.filter { !rules.priorities.contains($0) }
                let unusual = rules.priorities.filter { !rules.usualPriorities.contains($0) }
                let priorities =
                    rules.usualPriorities.map { "\($0.rawValue)" }.joined(separator: ", ")
                    + (unusual.isEmpty ? "" : " (\(unusual.map { "\($0.rawValue)" }.joined(separator: ", ")) warned)")
                    + (refused.isEmpty ? "" : " only")
                let must = rules.requirements.map { "`\($0.path)`" + ($0.value.map { " \($0)" } ?? "") }
                let oneOf =
                    rules.oneOf.isEmpty ? [] : ["one of " + rules.oneOf.map { "`\($0)`" }.joined(separator: ", ")]
                let suffix = type.topicSuffix.isEmpty ? "–" : "`\(type.topicSuffix)`"
                let not = rules.forbidden.map { "`\($0)`" }.joined(separator: ", ")
                return "| `\(type.rawValue)` | \(suffix) | \(priorities) | \(type.maximumPayloadBytes) | "
                    + "\((must + oneOf).joined(separator: ", ")) | \(not) |"
            })
    }

    @Test func `has a row for every documented key`() {
        for (place, keys) in [
            ("aps", PayloadKeys.aps), ("aps.alert", PayloadKeys.alert), ("aps.sound", PayloadKeys.sound),
        ] {
            expect(keys.map { "| `\(place).\($0.name)` | \($0.kind.rawValue) |" })
        }
    }

    @Test func `names tests that are there, each with its suite`() throws {
        var count = 0
        for row in page.matches(of: /\| \[(\w+)\]\(\.\.\/(Tests\/[\w\/]+\.swift)\) \| (`[^`|]+`) (`[^`|]+`) \|/) {
            let (_, file, path, suite, name) = row.output
            #expect(path.hasSuffix("/\(file).swift"), "\(file) is linked to \(path)")
            let source = try String(contentsOf: root.appending(path: String(path)), encoding: .utf8)
            let start = source.firstRange(of: suite)?.upperBound
            #expect(start != nil, "\(path) has no suite \(suite)")
            #expect(source[(start ?? source.startIndex)...].contains(name), "\(path) has no test \(name) in \(suite)")
            count += 1
        }
        #expect(count >= 150)
    }
}
