import Foundation
import Testing

@Suite struct `The documents` {
    private let repository = Repository()

    @Test func `link to what is there`() throws {
        for document in try repository.documents() {
            for link in links(in: document) where !link.contains("://") && !link.hasPrefix("mailto:") {
                #expect(try isThere(link, from: document), "\(document.path) links to \(link)")
            }
        }
    }

    @Test func `are all found from the README`() throws {
        let readme = try #require(repository.documents().first { $0.path == "README.md" })
        let linked = Set(links(in: readme))
        for document in try repository.documents() where document.path.hasPrefix("docs/") {
            #expect(linked.contains(document.path), "README.md does not link to \(document.path)")
        }
    }

    @Test func `name scripts that are there`() throws {
        for document in try repository.documents() {
            for match in document.text.matches(of: /\bscripts\/[a-z-]+/) {
                #expect(repository.exists(String(match.output)), "\(document.path) names \(match.output)")
            }
        }
    }

    @Test func `name source files that are there`() throws {
        for document in try repository.documents() {
            for match in document.text.matches(of: /\b(?:Sources|Tests|migrations)\/[A-Za-z0-9_+\/.-]*[A-Za-z0-9_]/) {
                #expect(repository.exists(String(match.output)), "\(document.path) names \(match.output)")
            }
            // A path within Sources, as in `HTTP2/Bytes/ByteQueue.swift`.
            for match in document.text.matches(of: /`((?:[A-Z]\w+\/)(?:[\w+]+\/)*[\w+]+\.swift)`/) {
                let path = String(match.output.1)
                #expect(
                    repository.exists(path) || repository.exists("Sources/\(path)"), "\(document.path) names \(path)")
            }
        }
    }

    /// Arguments are shown by ps and kept in a shell's history, and statements in the server's log.
    @Test func `put no password into a command`() throws {
        for document in try repository.documents() + repository.files(in: "deploy", endings: [".md", ".yaml"]) {
            #expect(!document.text.contains(/\blogin password '/), "\(document.path) has a password in a statement")
            #expect(!document.text.contains("--from-literal"), "\(document.path) has a secret in an argument")
        }
    }

    @Test func `keep the README to what is read`() throws {
        let readme = try #require(repository.documents().first { $0.path == "README.md" })
        #expect(readme.lines.count <= 150)
    }

    private func links(in document: Repository.File) -> [String] {
        document.text.matches(of: /\]\(([^)\s]+)\)/).map { String($0.output.1) }
    }

    private func isThere(_ link: String, from document: Repository.File) throws -> Bool {
        let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let folder = document.path.split(separator: "/").dropLast().joined(separator: "/")
        let path = parts[0].isEmpty ? document.path : folder.isEmpty ? parts[0] : "\(folder)/\(parts[0])"
        guard repository.exists(path) else { return false }
        guard parts.count == 2, path.hasSuffix(".md") else { return true }
        let text = try String(contentsOf: repository.root.appending(path: path), encoding: .utf8)
        return anchors(in: text).contains(parts[1])
    }

    /// The anchors that GitHub generates for headings.
    private func anchors(in text: String) -> [String] {
        text.split(separator: "\n").filter { $0.hasPrefix("#") }.map { heading in
            heading.drop { $0 == "#" || $0 == " " }.lowercased()
                .filter { $0.isLetter || $0.isNumber || $0 == " " || $0 == "-" || $0 == "_" }
                .replacingOccurrences(of: " ", with: "-")
        }
    }
}
