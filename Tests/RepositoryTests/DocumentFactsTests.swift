import Foundation
import Testing

/// Facts that the documents state and the code decides.
@Suite struct `The documents and the code` {
    private let repository = Repository()

    private func text(of path: String) throws -> String {
        try String(contentsOf: repository.root.appending(path: path), encoding: .utf8)
    }

    /// The cells of each row of the tables in a document.
    private func rows(of path: String) throws -> [[String]] {
        try text(of: path).split(separator: "\n").filter { $0.hasPrefix("| ") }.map { line in
            line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
    }

    @Test func `agree on the objects of the schema`() throws {
        let schema =
            try repository.files(in: "migrations", endings: [".sql"]).map(\.text).joined()
            + text(of: "Sources/PostgresStore/Migrations/Migrator.swift")
        let objects = Set(
            schema.matches(of: /create (?:or replace |unlogged )?(?:table|view|function|sequence) pushq\.(\w+)/).map {
                $0.output.1
            }
        )
        #expect(objects.count > 50)
        for document in try repository.documents() {
            for match in document.text.matches(of: /\bpushq\.([a-z_]+)\b/) {
                #expect(objects.contains(match.output.1), "\(document.path) names \(match.output.0)")
            }
        }
    }

    @Test func `say for each version what an operator has to do, and which migrations stop older workers`() throws {
        let changelog = try text(of: "CHANGELOG.md")
        let versions = changelog.components(separatedBy: "\n## ").dropFirst()
        #expect(!versions.isEmpty)
        for version in versions {
            let steps = version.components(separatedBy: "\n### To upgrade\n\n").dropFirst().first
            #expect(steps?.first.map { !$0.isNewline && $0 != "#" } ?? false, "\(version.prefix(20)) says nothing")
        }
        let current = try text(of: "Sources/Terminal/Version.swift").firstMatch(of: /"(\d+\.\d+\.\d+)"/)
        #expect(changelog.contains(try #require(current).output.1))
        for file in try repository.files(in: "migrations", endings: [".sql"])
        where file.text.hasPrefix("-- pushq: older workers must stop") {
            let name = file.path.split(separator: "/").last?.split(separator: ".").first ?? ""
            #expect(changelog.contains(name), "\(file.path) stops older workers, and CHANGELOG.md does not say so")
        }
    }

    @Test func `agree on the options of a worker and their defaults`() throws {
        let command =
            try text(of: "Sources/pushq/Commands/WorkCommand.swift")
            + text(of: "Sources/pushq/Logging/LogOptions.swift")
        let settings = try rows(of: "docs/operating.md").filter { $0[0].hasPrefix("`--") && $0.count == 3 }
        let options = command.matches(
            of:
                /\bvar (\w+):\s*(?:String|Duration|Int|HostAndPort|ListenAddress|InputFile|LogFormat|LogLevel)\??(?: = (.+))?\n/
        )
        #expect(options.count >= 10)
        for option in options {
            let name = "--" + option.output.1.map { $0.isUppercase ? "-\($0.lowercased())" : "\($0)" }.joined()
            let row = settings.first { $0[0].hasPrefix("`\(name) ") }
            #expect(row != nil, "docs/operating.md has no row for \(name)")
            guard let row, let value = option.output.2 else { continue }
            #expect(row[1].filter { $0 != "`" } == shown(String(value)), "docs/operating.md: the default of \(name)")
        }
    }

    /// A default as users write it: `.seconds(25)` is `25s`, `"*"` is `*`, `.info` is `info`.
    private func shown(_ value: String) -> String {
        if let match = value.wholeMatch(of: /\.seconds\((\d+)\)/) { return "\(match.output.1)s" }
        return value.drop { $0 == "." }.filter { $0 != "\"" }
    }

    /// The rows of `docs/logs.md` that show a line.
    private func logLines() throws -> [(event: String, level: String, keys: Set<String>, line: String)] {
        try rows(of: "docs/logs.md").filter { $0.count == 5 && $0[0] != "event" && !$0[0].hasPrefix("---") }.map {
            row in
            let keys = row[2].matches(of: /`(\w+)`/).map { String($0.output.1) }
            return (row[0].filter { $0 != "`" }, row[1], Set(keys), row[3])
        }
    }

    @Test func `agree on the lines of a worker's log`() throws {
        // Joins texts that are split between two lines of code.
        let code = try [
            "Sources/Workers", "Sources/PostgresStore", "Sources/QueueCore", "Sources/pushq", "Sources/Terminal",
        ]
        .flatMap { try repository.files(in: $0, endings: [".swift"]) }
        .map { $0.text.replacing(/"\s*\+ "/, with: "") }.joined()
        let lines = try logLines().map(\.line).filter { $0.hasPrefix("`") }
        #expect(lines.count >= 35)
        for line in lines {
            // An ellipsis or a number N stands for a value. After a colon, a reason from elsewhere may follow.
            let parts = line.filter { $0 != "`" }.replacing(/\bN\b|:\s/, with: "…").split(separator: "…")
            for part in parts.map({ $0.trimmingCharacters(in: .whitespaces) }) where !part.isEmpty {
                #expect(code.contains(part), "docs/logs.md has a line with “\(part)”, which no worker writes")
            }
        }
    }

    @Test func `agree on the events of a worker's log, their levels and their keys`() throws {
        let code = try text(of: "Sources/pushq/Logging/EngineEvent+Entry.swift")
        // Matches `case .storeBack: ("store_back", [])`, and what follows up to the next case.
        let facts = code.matches(
            of: /case \.(\w+)(?:\([^)]*\))?:\s*\(\s*"(\w+)",((?:(?!case \.|private func)[\s\S])*)/)
        #expect(facts.count >= 35)
        let documented = try Dictionary(grouping: logLines().filter { !$0.event.isEmpty }, by: \.event)
        for fact in facts {
            let (name, event, values) = (fact.output.1, String(fact.output.2), fact.output.3)
            let row = try #require(documented[event]?.first, "docs/logs.md has no event \(event)")
            #expect(documented[event]?.count == 1)
            var keys = Set(values.matches(of: /\("(\w+)",/).map { String($0.output.1) })
            if values.contains("on(queue") { keys.insert("queue") }
            if values.contains("on(queue, reason)") { keys.insert("reason") }
            #expect(row.keys == keys, "docs/logs.md: the keys of \(event)")
            let level = try #require(
                code.firstMatch(of: try Regex(#"\.\#(name)\b[^:]*:\s*\.(\w+)"#, as: (Substring, Substring).self)))
            #expect(row.level == level.output.1, "docs/logs.md: the level of \(event)")
        }
        // Events that the command itself reports.
        let files = [
            "pushq/Commands/WorkCommand", "pushq/Work/DatabaseListReader", "pushq/Work/ServedDatabases+DoubledTenants",
            "Terminal/Log/Log",
        ]
        let commands = try files.map { try text(of: "Sources/\($0).swift") }
        let command = commands.joined()
        let own = command.matches(of: /LogEntry\(\s*\.(\w+), "(\w+)"/)
        for entry in own {
            #expect(documented[String(entry.output.2)]?.first?.level == String(entry.output.1), "\(entry.output.2)")
        }
        let written = Set(facts.map { String($0.output.2) } + own.map { String($0.output.2) })
        #expect(Set(documented.keys) == written)
    }

    @Test(arguments: [
        ("Tests/Chaos", #"name: "([a-z-]+)""#, "docs/chaos.md", 28),
        ("fuzz", #"static let name = "([a-z0-9-]+)""#, "docs/fuzzing.md", 8),
        ("bench", #"\("([a-z-]+)", \{ try await"#, "bench/README.md", 6),
    ])
    func `agree on what there is to run`(folder: String, name: String, document: String, least: Int) throws {
        let pattern = try Regex(name, as: (Substring, Substring).self)
        let names = try repository.files(in: folder, endings: [".swift"]).flatMap { file in
            file.text.matches(of: pattern).map { String($0.output.1) }
        }
        #expect(names.count >= least)
        let words = Set(try text(of: document).split { !$0.isLetter && !$0.isNumber && $0 != "-" })
        for name in names { #expect(words.contains(name[...]), "\(document) does not name \(name)") }
    }

    @Test func `use every word of the vocabulary`() throws {
        let words = try rows(of: "docs/words.md").map { $0[0] }.filter { $0 != "word" && !$0.hasPrefix("---") }
        #expect(words.count >= 30)
        let code = try
            (repository.files(in: "Sources", endings: [".swift"])
            + repository.files(in: "migrations", endings: [".sql"])).map(\.text).joined().lowercased()
        for word in words {
            let name = word.prefix { $0 != "(" && $0 != "," }.trimmingCharacters(in: .whitespaces)
            #expect(code.contains(name.lowercased()), "docs/words.md explains “\(name)”, which no code uses")
        }
    }

    /// A figure: a pattern that captures it where it is decided, and the sentence that states it, with # for the
    /// figure.
    private struct Figure {
        let decided: String
        let document: String
        let sentence: String

        init(_ decided: String, _ document: String, _ sentence: String) {
            self.decided = decided
            self.document = document
            self.sentence = sentence
        }
    }

    private static let figures = [
        Figure(
            #"var lease = Duration\.seconds\((\d+)\)"#, "docs/job-lifecycle.md", "# s after the claim, flush or renewal"
        ),
        Figure(
            #"var flushInterval = Duration\.milliseconds\((\d+)\)"#, "docs/job-lifecycle.md",
            "Flushes happen every # ms"),
        Figure(#"rescueGrace = Duration\.seconds\((\d+)\)"#, "docs/job-lifecycle.md", "# s after the deadline"),
        Figure(#"atMostOnceWindow = (\d+)"#, "docs/job-lifecycle.md", "the claim allows # recipients"),
        Figure(#"maximumLosses = (\d+)"#, "docs/job-lifecycle.md", "fewer than # losses"),
        Figure(
            #"var tokenAge = Duration\.seconds\((\d+)\)"#, "docs/job-lifecycle.md", "sends to them for # s (`tokenAge`)"
        ),
        Figure(
            #"var updateAge = Duration\.milliseconds\((\d+)\)"#, "docs/job-lifecycle.md",
            "goes back # ms after PostgreSQL has answered its claim"),
        Figure(#"jobsOfStep = (\d+)"#, "docs/job-lifecycle.md", "up to # jobs"),
        Figure(#"\bleast = (\d+)"#, "docs/job-lifecycle.md", "or when there are fewer than #"),
        Figure(
            #"leastPaced = (\d+)"#, "docs/job-lifecycle.md",
            "(# under a rate limit, where a job takes up to two seconds)"),
        Figure(#"urgentLead: Double \{ (\d+) \}"#, "docs/words.md", "no further than # pushes ahead of its share"),
        Figure(#"var drain = Duration\.seconds\((\d+)\)"#, "docs/failures.md", "waits up to # s for pushes in flight"),
        Figure(#"drainTime = Duration\.seconds\((\d+)\)"#, "docs/failures.md", "wait up to # s for their answers"),
        Figure(
            #"responseTime = Duration\.seconds\((\d+)\)"#, "docs/failures.md",
            "After # s it is replaced, and its requests are sent again"),
        Figure(#"var turn = Duration\.seconds\((\d+)\)"#, "docs/failures.md", "to the next by turns of # s"),
        Figure(#"minimumSeconds: Int64 = (\d+) \* 60"#, "docs/failures.md", "replaced if it is older than # minutes"),
        Figure(#"maximumTextBytes = (\d+)"#, "docs/security.md", "at most # bytes, without control characters"),
        Figure(#"keyByteCount = (\d+)"#, "docs/security.md", "The *master key* of # bytes"),
        Figure(#"dutyRetry = Duration\.seconds\((\d+)\)"#, "docs/operating.md", "it is tried again after # seconds"),
        Figure(#"var feedbackDays = (\d+)"#, "docs/operating.md", "and those of `feedback` older than # days"),
        Figure(#"recipient_count between 1 and (\d+)"#, "ARCHITECTURE.md", "A job carries up to # recipients"),
        Figure(#"max_attempts +smallint +not null default (\d+)"#, "docs/failures.md", "`max_attempts` answers (#)"),
        Figure(#"var enoughAnswers = (\d+)"#, "docs/failures.md", "With fewer than # answers"),
        Figure(#"var fewest = (\d+)"#, "docs/failures.md", "and at least #,"),
        Figure(#"headStart = Duration\.milliseconds\((\d+)\)"#, "docs/failures.md", "in parallel after # ms"),
        Figure(#"var days = (\d+)"#, "docs/operating.md", "drops those older than # days"),
        Figure(#"maximumTranslations = (\d+) << 20"#, "docs/operating.md", "at most # MB of translations"),
        Figure(#"maximumClaimed = (\d+) << 20"#, "docs/operating.md", "A claim brings at most # MB of them"),
        Figure(#"var daysAhead = (\d+)"#, "docs/operating.md", "partitions for the next # days"),
        Figure(#"idlePoll = Duration\.milliseconds\((\d+)\)"#, "docs/operating.md", "at least every # ms"),
        Figure(#"static let minimumVersion = (\d+)"#, "docs/operating.md", "PostgreSQL # or later"),
        Figure(#"static let minimumVersion = (\d+)"#, "README.md", "PostgreSQL # or later"),
        Figure(
            #"collecting limit: Int = (\d+)_000_000"#, "docs/cli.md", "up to # million tokens are read into memory"),
        Figure(
            #"collecting limit: Int = (\d+)_000_000"#, "docs/performance.md",
            "only for up to # million bare tokens into a queue without devices"),
    ]

    @Test func `agree on figures`() throws {
        let code = try
            (repository.files(in: "Sources", endings: [".swift"])
            + repository.files(in: "migrations", endings: [".sql"])).map(\.text).joined()
        for figure in Self.figures {
            let pattern = try Regex(figure.decided, as: (Substring, Substring).self)
            let value = try #require(code.firstMatch(of: pattern)?.output.1, "no code decides \(figure.decided)")
            let page = try text(of: figure.document).split(whereSeparator: \.isWhitespace).joined(separator: " ")
            let sentence = figure.sentence.replacing("#", with: value)
            #expect(page.contains(sentence), "\(figure.document) should say “\(sentence)”")
        }
    }
}
