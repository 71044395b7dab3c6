import Testing

/// Which folders and files of a target refer to which. A file refers to another one if it names a type that only the
/// other one declares.
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

    /// For each file those that it refers to, each with a type that it names.
    private func fileReferences(in target: String) throws -> [Repository.File: [Repository.File: String]] {
        let files = try repository.files(in: "Sources/\(target)", endings: [".swift"])
        var places: [String: [Repository.File]] = [:]
        for file in files { for type in Self.declared(in: file) { places[type, default: []].append(file) } }
        var references: [Repository.File: [Repository.File: String]] = [:]
        for file in files {
            for word in Self.words(of: file) {
                guard let place = places[word], place.count == 1, place[0] != file else { continue }
                references[file, default: [:]][place[0]] = word
            }
        }
        return references
    }

    /// For each folder those that it refers to, each with one file that does.
    private func references(in target: String) throws -> [String: [String: String]] {
        var references: [String: [String: String]] = [:]
        for (file, others) in try fileReferences(in: target) {
            let from = Self.folder(of: file)
            for (other, type) in others where Self.folder(of: other) != from {
                references[from, default: [:]][Self.folder(of: other)] = "\(file.path) names \(type)"
            }
        }
        return references
    }

    /// What is left when, again and again, everything is taken away that refers to nothing that is left: circles, and
    /// what refers to them.
    private static func circles<Node: Hashable>(in references: [Node: [Node: String]]) -> [Node: [Node: String]] {
        var left = references
        while let bottom = left.first(where: { $0.value.keys.allSatisfy { left[$0] == nil } }) {
            left[bottom.key] = nil
        }
        return left.mapValues { $0.filter { left[$0.key] != nil } }
    }

    @Test(arguments: ["Workers", "PostgresStore", "HTTP2", "Cryptography", "QueueCore"])
    func `of a target do not refer to each other in a circle`(target: String) throws {
        let references = try references(in: target)
        #expect(!references.isEmpty, "\(target) has no folders any more that refer to each other")
        let circles = Self.circles(in: references)
        #expect(circles.isEmpty, "\(circles)")
    }

    // The store's connection and its calls, and its rows and their values, are one idea in two files each.
    @Test(arguments: try Repository().targets().filter { $0 != "PostgresStore" })
    func `hold files that do not refer to each other in a circle`(target: String) throws {
        for (file, others) in Self.circles(in: try fileReferences(in: target)) {
            for (other, type) in others { Issue.record("\(file.path) names \(type) of \(other.path)") }
        }
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
