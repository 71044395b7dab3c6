import Foundation
import Testing

/// Compares the commands that documents name or show with the reference that the program generates.
@Suite struct `The commands in the documents` {
    private let repository = Repository()

    /// The text in `docs/cli.md` below the heading of each command, by the command's words.
    private func reference() throws -> [String: String] {
        let page = try String(contentsOf: repository.root.appending(path: "docs/cli.md"), encoding: .utf8)
        var texts: [String: String] = [:]
        var command = ""
        for line in page.split(separator: "\n") {
            if line.hasPrefix("## ") || line.hasPrefix("### ") || line.hasPrefix("#### ") {
                command = line.drop { $0 == "#" || $0 == " " }.lowercased()
            }
            texts[command, default: ""] += line + "\n"
        }
        return texts
    }

    /// Commands in code spans, after a prompt, and in shell scripts.
    private func commands(in document: Repository.File) -> [String] {
        var found: [String] = []
        var language: Substring?
        for line in document.lines {
            let text = line.drop { $0 == " " }
            if text.hasPrefix("```") {
                language = language == nil ? text.dropFirst(3) : nil
            } else if language == "sh" || language == "console" && text.hasPrefix("$ ") {
                found.append(text.hasPrefix("$ ") ? String(text.dropFirst(2)) : String(text))
            } else if language == nil {
                found += text.split(separator: "`", omittingEmptySubsequences: false).enumerated()
                    .filter { $0.offset % 2 == 1 }.map { String($0.element) }
            }
        }
        return found.filter { $0.hasPrefix("pushq ") || $0.hasPrefix("pushq-admin ") }
    }

    @Test func `are there, with the options that they are shown with`() throws {
        let reference = try reference()
        #expect(reference.count > 40)
        var count = 0
        for document in try repository.documents() where document.path != "docs/cli.md" {
            for command in commands(in: document) {
                count += 1
                var words = command.split(separator: " ").prefix { $0 != "#" }
                var name = String(words.removeFirst())
                while let word = words.first, reference["\(name) \(word)"] != nil {
                    name += " \(words.removeFirst())"
                }
                #expect(name.contains(" "), "\(document.path) shows “\(command)”, which is no command")
                for option in words where option.hasPrefix("--") && option != "--json" {
                    #expect(
                        reference[name]?.contains("  \(option) ") == true
                            || reference[name]?.contains("  \(option)\n") == true,
                        "\(document.path) shows “\(command)”, but \(name) has no \(option)")
                }
            }
        }
        #expect(count >= 40)
    }
}
