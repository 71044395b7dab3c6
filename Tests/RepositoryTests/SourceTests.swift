import Testing

@Suite struct `Every source file` {
    private let repository = Repository()

    @Test func `is short enough to be read at once`() throws {
        for file in try repository.swiftFiles() where !file.path.contains("+Generated") {
            #expect(
                file.lines.count <= 600, "\(file.path) has \(file.lines.count) lines: divide it by what it is about")
        }
    }

    @Test func `is finished`() throws {
        let marks = ["TO" + "DO", "FIX" + "ME", "HA" + "CK", "X" + "XX"]
        let files =
            try repository.swiftFiles() + repository.files(in: "migrations", endings: [".sql"]) + repository.documents()
        for file in files {
            for (index, line) in file.lines.enumerated() {
                let words = line.split { !$0.isLetter }
                #expect(
                    !words.contains { marks.contains(String($0)) },
                    "\(file.path):\(index + 1) leaves something open: do it, or make it an issue")
            }
        }
    }

    /// `swift format` breaks lines of code, but not comments.
    @Test func `has comments of at most 120 columns`() throws {
        for file in try repository.swiftFiles() {
            for (index, line) in file.lines.enumerated() where line.count > 120 {
                let text = line.drop { $0 == " " }
                #expect(!text.hasPrefix("//"), "\(file.path):\(index + 1) has \(line.count) columns")
            }
        }
    }

    @Test func `says what its types are for`() throws {
        let kinds = ["struct", "class", "enum", "protocol", "actor"]
        for file in try repository.files(in: "Sources", endings: [".swift"]) {
            let lines = file.lines
            for (index, line) in lines.enumerated() where line.hasPrefix("package ") {
                let words = line.split(separator: " ").prefix(3).map(String.init)
                guard words.contains(where: kinds.contains) else { continue }
                let above = lines[..<index].last { !$0.hasPrefix("@") && !$0.hasPrefix("// swift-format") }
                #expect(above?.hasPrefix("///") ?? false, "\(file.path):\(index + 1) has no /// above it")
            }
        }
    }

    /// A key or a name may contain whatever a tenant chose, and an operator pastes the command.
    @Test func `quotes keys and names in commands that it prints`() throws {
        // A command in a text, and an interpolation in that text.
        let bare =
            /\bpushq(?:-admin)? [a-z](?:[^"]|\("[a-z]+"\))*\\\((?:[a-z]+\.)*(?:key|name|login|role|credential|text\("(?:key|name|login|credential)"\))\)/
        for file in try repository.files(in: "Sources", endings: [".swift"]) {
            for line in file.code {
                #expect(!line.text.contains(bare), "\(file.path):\(line.number): use ShellWords.quoted")
                // Other names begin with a letter or digit, or are chosen by operators.
                #expect(
                    !line.text.contains("quoted(key)") && !line.text.contains(#"quoted(row.text("key"))"#),
                    "\(file.path):\(line.number): use ShellWords.argument, since a key may begin with a hyphen")
            }
        }
    }

    /// An optimised program that meets `precondition` or `preconditionFailure` ends without its message. `fatalError`
    /// says it in every build.
    @Test func `ends with words that a released program says, too`() throws {
        for file in try repository.files(in: "Sources", endings: [".swift"]) {
            for line in file.code {
                let isMute =
                    line.text.contains("preconditionFailure(")
                    || line.text.contains("precondition(") && line.text.contains(#"\("#)
                #expect(!isMute, "\(file.path):\(line.number): use fatalError, or the message is lost")
            }
        }
    }

    /// The standard library's lock uses a futex in a library that is not instrumented, so the thread sanitizer would
    /// report what the lock guards.
    @Test func `locks so that the thread sanitizer sees it`() throws {
        let lock = "Mu" + "tex("
        for file in try repository.swiftFiles() {
            for (index, line) in file.lines.enumerated() {
                #expect(!line.contains(lock), "\(file.path):\(index + 1): use Transport's Locked")
            }
        }
    }
}

@Suite struct `Every test` {
    private let repository = Repository()

    private func tests() throws -> [Repository.File] { try repository.files(in: "Tests", endings: ["Tests.swift"]) }

    /// A number means nothing to a reader without the list that it comes from.
    @Test func `says in words what it is about`() throws {
        for file in try tests() {
            for match in file.text.matches(of: /`((?:cases? )?P?\d+(?:(?:, | and )P?\d+)*: [^`]+)`/) {
                Issue.record("\(file.path) has a test “\(match.output.1)”: say the case in words")
            }
        }
    }

    @Test func `is found from the file that it is about`() throws {
        var sources: [String: String] = [:]
        for file in try repository.files(in: "Sources", endings: [".swift"]) {
            let parts = file.path.split(separator: "/").dropFirst()
            guard let target = parts.first, let name = parts.last?.dropLast(".swift".count) else { continue }
            sources["\(target)/\(name)"] = parts.dropFirst().dropLast().joined(separator: "/")
        }
        var count = 0
        for file in try tests() {
            let parts = file.path.split(separator: "/").dropFirst()
            guard let suite = parts.first, let name = parts.last?.dropLast("Tests.swift".count),
                let folder = sources["\(suite.dropLast("Tests".count))/\(name)"]
            else { continue }
            count += 1
            #expect(
                parts.dropFirst().dropLast().joined(separator: "/") == folder,
                "\(file.path) should lie in \(folder.isEmpty ? "the root" : folder), as \(name).swift does")
        }
        #expect(count >= 60)
    }
}
