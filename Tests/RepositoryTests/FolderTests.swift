import Testing

/// Tests which folders and files of a target refer to which. A file refers to another file if it names a type that only
/// the other file declares.
@Suite struct Folders {
    private let repository = Repository()

    /// The types that a file declares and names.
    private struct Names {
        let file: Repository.File
        /// The types that other files may name.
        let declared: Set<String>
        /// The declared types that are nested in another type.
        let nested: Set<String>
        /// The words in its code, outside of string literals, that may be types of other files.
        let named: Set<String>

        init(_ file: Repository.File) {
            self.file = file
            let pattern = /^( {0,4})(?:[a-z@][\w()]* )*(?:class|struct|enum|actor|protocol|typealias) ([A-Z]\w*)/
            var (declared, nested, own, named): (Set<String>, Set<String>, Set<String>, Set<String>) = ([], [], [], [])
            for line in file.code {
                if let type = line.text.firstMatch(of: pattern) {
                    let name = String(type.output.2)
                    own.insert(name)
                    if !line.text.contains("private ") { declared.insert(name) }
                    if !type.output.1.isEmpty { nested.insert(name) }
                }
                let code = line.text.replacing(/"(?:\\.|[^"\\])*"/, with: "")
                for word in code.matches(of: /\b[A-Z]\w*/) { named.insert(String(word.output)) }
            }
            (self.declared, self.nested, self.named) = (declared, nested, named.subtracting(own))
        }
    }

    /// The names of all files, by target. They are read once for all tests.
    private static let names = Result {
        Dictionary(grouping: try Repository().files(in: "Sources", endings: [".swift"]).map(Names.init)) {
            String($0.file.path.split(separator: "/")[1])
        }
    }

    /// The folder of a file within its target; empty if the file is not in a folder.
    private static func folder(of file: Repository.File) -> String {
        file.path.split(separator: "/").dropFirst(2).dropLast().joined(separator: "/")
    }

    /// The files that each file refers to, each with a type that it names. The name of a nested type does not count if
    /// another target has a type of that name.
    private func fileReferences(in target: String) throws -> [Repository.File: [Repository.File: String]] {
        let names = try Self.names.get()
        let elsewhere = Set(names.filter { $0.key != target }.values.joined().flatMap(\.declared))
        var places: [String: [Repository.File]] = [:]
        for file in names[target] ?? [] {
            for type in file.declared.subtracting(file.nested.intersection(elsewhere)) {
                places[type, default: []].append(file.file)
            }
        }
        var references: [Repository.File: [Repository.File: String]] = [:]
        for file in names[target] ?? [] {
            for word in file.named {
                guard let place = places[word], place.count == 1 else { continue }
                references[file.file, default: [:]][place[0]] = word
            }
        }
        return references
    }

    /// The folders that each folder refers to, each with a file that does.
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

    /// Returns what remains after repeatedly removing everything that refers to nothing, or to which nothing refers:
    /// the cycles and what lies between them.
    private static func circles<Node: Hashable>(in references: [Node: [Node: String]]) -> [Node: [Node: String]] {
        var left = references
        while let bottom = left.first(where: { $0.value.keys.allSatisfy { left[$0] == nil } }) {
            left[bottom.key] = nil
        }
        while let top = left.keys.first(where: { node in !left.values.contains { $0[node] != nil } }) {
            left[top] = nil
        }
        return left.mapValues { $0.filter { left[$0.key] != nil } }
    }

    @Test(arguments: try Repository().targets())
    func `of a target do not refer to each other in a circle`(target: String) throws {
        let circles = Self.circles(in: try references(in: target))
        #expect(circles.isEmpty, "\(circles)")
    }

    @Test(arguments: try Repository().targets())
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
