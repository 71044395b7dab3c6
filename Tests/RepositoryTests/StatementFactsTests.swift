import Foundation
import Testing

/// Facts that Swift decides and SQL also states.
@Suite struct `Swift and SQL` {
    private let repository = Repository()

    /// The migrations, and the Swift files with statements.
    private func statements() throws -> [Repository.File] {
        try repository.files(in: "migrations", endings: [".sql"])
            + repository.files(in: "Sources/PostgresStore", endings: [".swift"])
    }

    /// `TraceTests` compares `pushq.outcome_kind` with `Outcome.kind`. Only 0, for no outcome yet, may be written
    /// elsewhere.
    @Test func `name the bytes of outcomes in one function`() throws {
        for file in try statements() {
            #expect(
                !file.text.contains(/get_byte\([\w.]*outcomes[^\n]*\)\s*(?:between\s+\d|in\s*\(\d|[<>=]+\s*[1-9])/),
                "\(file.path): use pushq.outcome_kind")
        }
    }

    /// The texts of the statements in a file.
    private func texts(in file: Repository.File) -> String {
        file.text.matches(of: /#?"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"/).map { String($0.output) }
            .filter { $0.contains(/\b(?:select|returning|insert|update|delete)\b/) }.joined(separator: "\n")
    }

    @Test func `agree on the names of columns`() throws {
        let files = try repository.files(in: "Sources/PostgresStore", endings: [".swift"])
        let all = files.map(texts).joined()
        var count = 0
        for file in files {
            // Code that reads columns for several statements is in a file without a statement.
            let own = file.text.contains(" = Statement(") ? texts(in: file) : all
            let readers = /(?:row|one\(\)|first\??|\$0)\.(?:is|optional)?[A-Za-z]\w*\("([a-z_0-9]+)"\)/
            for match in file.text.matches(of: readers) {
                count += 1
                let name = match.output.1
                let isThere = own.split { !$0.isLetter && !$0.isNumber && $0 != "_" }.contains(name)
                #expect(isThere, "\(file.path) reads a column \(name), which no statement there returns")
            }
        }
        #expect(count > 150)
    }

    @Test func `name their parameters`() throws {
        for file in try repository.files(in: "Sources/PostgresStore", endings: [".swift"]) {
            let numbered = texts(in: file).firstMatch(of: /\$\d/)
            #expect(numbered == nil, "\(file.path) has a statement with a numbered parameter")
        }
    }

    @Test func `agree on how many recipients a job may have`() throws {
        let text = try statements().map(\.text).joined()
        let allowed = try #require(text.firstMatch(of: /recipient_count between 1 and (\d+)/)?.output.1)
        let fanOut = try #require(
            text.firstMatch(of: /least\((\d+), greatest\(1, coalesce\([^,]*, (\d+)\)\)\)[^;]*, (\d+)\);/)?.output)
        let retries = try #require(text.firstMatch(of: /maximumRecipients = (\d+)/)?.output.1)
        #expect(
            [fanOut.1, fanOut.2, fanOut.3].allSatisfy { $0 == allowed },
            "a campaign's jobs have as many recipients as a job may have")
        #expect(retries == allowed, "retries are divided into jobs of as many recipients as a job may have")
    }

    @Test func `agree on how long the row of a worker that sleeps counts`() throws {
        let engine = try repository.files(in: "Sources/Workers", endings: [".swift"]).map(\.text).joined()
        let lasts = try #require(engine.firstMatch(of: /rowLasts = Duration\.seconds\((\d+)\)/)?.output.1)
        let files = try statements()
        let text = files.map(\.text).joined()
        let counts = try #require(
            text.firstMatch(of: /pushq\.is_asleep\(since timestamptz\)[^;]*interval '(\d+) seconds'/)?.output.1)
        #expect(lasts == counts, "a worker relies on its row for as long as producers read it")
        for file in files {
            #expect(!file.text.contains(/since > statement_timestamp/), "\(file.path): use pushq.is_asleep")
        }
    }
}

@Suite struct `SQL` {
    /// In such a literal, a backslash is an escape if standard_conforming_strings is off, which a producer may have
    /// set. In a literal that begins with E it always is.
    @Test func `has no backslash in a plain literal`() throws {
        var count = 0
        for file in try Repository().files(in: "migrations", endings: [".sql"]) {
            let literals = Literals(in: file.text)
            count += literals.count
            for line in literals.linesOfPlainBackslashes { Issue.record("\(file.path):\(line): write E'…'") }
        }
        for file in try Repository().files(in: "Sources/PostgresStore", endings: [".swift"]) {
            for match in file.text.matches(of: /#"""[\s\S]*?"""#/) {
                let before = file.text[..<match.range.lowerBound].count { $0 == "\n" }
                for line in Literals(in: match.output.replacing("\\#(", with: "(")).linesOfPlainBackslashes {
                    Issue.record("\(file.path):\(before + line): write E'…'")
                }
            }
        }
        #expect(count > 1000)
        #expect(Literals(in: "-- '\\'\n'a''b' E'\\'' \"\\'\" 'c'").linesOfPlainBackslashes == [])
        #expect(Literals(in: #"select E'\\', '''\'"#).linesOfPlainBackslashes == [1])
        #expect(Literals(in: "'a'\n  'b\\s'").linesOfPlainBackslashes == [2])
        #expect(Literals(in: "E'a'\n  'b\\s'").linesOfPlainBackslashes == [])
    }

    @Test func `fits into 120 columns in its files`() throws {
        for file in try Repository().files(in: "migrations", endings: [".sql"]) {
            for (index, line) in file.lines.enumerated() {
                #expect(line.count <= 120, "\(file.path):\(index + 1)")
            }
        }
    }

    @Test func `fits into 120 columns in the store's statements`() throws {
        var count = 0
        for file in try Repository().files(in: "Sources/PostgresStore", endings: [".swift"]) {
            for match in file.text.matches(of: /Statement\([^"]*"\w+",\s*(#"""[\s\S]*?"""|"[^"\n]*")/) {
                count += 1
                let start = file.text[..<match.output.1.startIndex].count { $0 == "\n" } + 1
                for (index, line) in match.output.1.split(separator: "\n", omittingEmptySubsequences: false)
                    .enumerated()
                {
                    #expect(line.count <= 120, "\(file.path):\(start + index)")
                }
            }
        }
        #expect(count > 100)
    }
}

/// The files that the migrator applies again whenever their text changes.
@Suite struct `Files of functions and views` {
    @Test func `can be applied again, and no object is made by two of them`() throws {
        var files: [String: String] = [:]
        for folder in ["migrations/functions", "migrations/views"] {
            for file in try Repository().files(in: folder, endings: [".sql"]) {
                let made = file.text.matches(
                    of: /(?m)^create (or replace )?(function|procedure|trigger|view) (?:pushq\.)?(\w+)/)
                #expect(!made.isEmpty, "\(file.path) makes nothing")
                for match in made {
                    let name = "\(match.output.2) \(match.output.3)"
                    #expect(match.output.1 != nil, "\(file.path) makes \(name) without `or replace`")
                    // A later file would replace an object of an earlier one. Overloads must be in the same file.
                    #expect(
                        files[name, default: file.path] == file.path,
                        "\(name) is in \(file.path) and \(files[name] ?? "")")
                    files[name] = file.path
                }
                // Only migrations change tables, once.
                #expect(
                    !file.text.contains(/(?m)^(create|alter|drop) (unlogged )?(table|index|sequence|type)/),
                    "\(file.path)")
            }
        }
        #expect(files.count > 50)
    }
}

/// The literals of some SQL, including those within function bodies.
private struct Literals {
    private(set) var count = 0
    /// The lines on which literals without E contain a backslash, counted from 1.
    private(set) var linesOfPlainBackslashes: [Int] = []

    init(in sql: some StringProtocol) {
        let text = Array(sql.unicodeScalars)
        var (place, line) = (0, 1)
        var last: Unicode.Scalar = " "
        // Whether a literal that begins here continues an earlier one that began with E.
        var continuesEscaped = false
        func skip(_ count: Int) {
            let end = min(place + count, text.count)
            line += text[place..<end].count { $0 == "\n" }
            place = end
        }
        func skip(to end: Unicode.Scalar) {
            while place < text.count, text[place] != end { skip(1) }
        }
        while place < text.count {
            let next = text[place]
            if next == "-", place + 1 < text.count, text[place + 1] == "-" {
                skip(to: "\n")
            } else if next == "\"" {
                skip(1)
                skip(to: "\"")
                skip(1)
                continuesEscaped = false
            } else if next == "'" {
                count += 1
                let escapes = continuesEscaped || last == "E" || last == "e"
                skip(1)
                while place < text.count {
                    if text[place] == "\\", !escapes { linesOfPlainBackslashes.append(line) }
                    let isPair = place + 1 < text.count && text[place] == "'" && text[place + 1] == "'"
                    if text[place] == "'", !isPair { break }
                    skip(isPair || text[place] == "\\" && escapes ? 2 : 1)
                }
                skip(1)
                continuesEscaped = escapes
                last = "'"
            } else {
                if !next.properties.isWhitespace { continuesEscaped = false }
                last = next
                skip(1)
            }
        }
    }
}
