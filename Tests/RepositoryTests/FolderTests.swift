import Testing

/// Which folders of a target refer to which. A file refers to another one if it names a type that only the other one declares.
@Suite struct Folders {
    private let repository = Repository()

    /// The types that a file declares, at its top level or inside another type.
    private static func declared(in file: Repository.File) -> Set<String> {
        let pattern = /^ {0,4}(?:[a-z@][\w()]* )*(?:class|struct|enum|actor|protocol|typealias) ([A-Z]\w*)/
        return Set(
            file.code.filter { !$0.text.contains("private ") }.compactMap { line in
                line.text.firstMatch(of: pattern).map { String($0.output.1) }
            })
    }

    /// The words of its code, without texts between quotes.
    private static func words(of file: Repository.File) -> Set<String> {
        Set(
            file.code.flatMap { line in
                line.text.replacing(/"(?:\\.|[^"\\])*"/, with: "").matches(of: /\b[A-Z]\w*/).map { String($0.output) }
            })
    }

    /// The folder of a file within its target; empty for a file that lies in none.
    private static func folder(of file: Repository.File) -> String {
        file.path.split(separator: "/").dropFirst(2).dropLast().joined(separator: "/")
    }

    /// For each folder those that it refers to, each with one file that does.
    private func references(in target: String) throws -> [String: [String: String]] {
        let files = try repository.files(in: "Sources/\(target)", endings: [".swift"])
        var places: [String: [Repository.File]] = [:]
        for file in files { for type in Self.declared(in: file) { places[type, default: []].append(file) } }
        var references: [String: [String: String]] = [:]
        for file in files {
            for word in Self.words(of: file) {
                guard let place = places[word], place.count == 1, place[0].path != file.path else { continue }
                let (from, to) = (Self.folder(of: file), Self.folder(of: place[0]))
                if from != to { references[from, default: [:]][to] = "\(file.path) names \(word)" }
            }
        }
        return references
    }

    @Test(arguments: ["Workers", "PostgresStore", "HTTP2", "Cryptography", "QueueCore"])
    func `of a target do not refer to each other in a circle`(target: String) throws {
        var left = try references(in: target)
        #expect(!left.isEmpty, "\(target) has no folders any more that refer to each other")
        // Takes away, again and again, the folders that refer to none that is left.
        while let bottom = left.first(where: { $0.value.keys.allSatisfy { left[$0] == nil } }) {
            left[bottom.key] = nil
        }
        #expect(left.isEmpty, "\(left)")
    }

    @Test(arguments: [("Workers", "The folders of the engine"), ("PostgresStore", "The folders of the store")])
    func `refer only to those below them in ARCHITECTURE.md`(target: String, heading: String) throws {
        let page = try #require(repository.documents().first { $0.path == "ARCHITECTURE.md" })
        let section = try #require(page.text.split(separator: "\n## ").first { $0.hasPrefix(heading) })
        let table = section.matches(of: #/\n\| ((?:`[A-Z]\w*`(?:, )?)+) \| /#).map { row in
            row.output.1.split(separator: ", ").map { String($0.dropFirst().dropLast()) }
        }
        let references = try references(in: target)
        let folders = try repository.files(in: "Sources/\(target)", endings: [".swift"]).map(Self.folder)
        #expect(Set(table.joined()) == Set(folders), "the table does not list each folder")
        for (row, folders) in table.enumerated() {
            let below = Set(table[(row + 1)...].joined())
            for folder in folders {
                for (other, example) in references[folder] ?? [:] where !below.contains(other) {
                    Issue.record("\(other) is not below \(folder): \(example)")
                }
            }
        }
    }
}
