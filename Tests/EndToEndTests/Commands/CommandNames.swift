import Foundation
import TestSupport

extension Executable {
    /// The names of all commands of both programs, as the programs list them: `pushq-admin queue set`.
    /// - Parameter option: only commands with this option.
    static func commandNames(with option: String? = nil) async throws -> Set<String> {
        let all = try await usages()
        let matching = option.map { option in all.filter { $0.options.contains { $0.first == option } } } ?? all
        return Set(matching.map(\.command))
    }

    /// All options whose value is called `placeholder`, with their commands.
    static func options(taking placeholder: String) async throws -> [(command: String, option: String)] {
        try await usages().flatMap { command, options in
            options.filter { $0.count > 1 && $0[1] == placeholder }.map { (command, $0[0]) }
        }
    }

    /// Every command with the words of its lines in the help that begin with an option.
    private static func usages() async throws -> [(command: String, options: [[String]])] {
        var usages: [(command: String, options: [[String]])] = []
        for executable in [Executable.pushq, .admin] {
            let sections = try await executable.run(["help", "--markdown"]).output.components(separatedBy: "\nUsage: ")
            for section in sections.dropFirst() {
                let lines = section.split(separator: "\n")
                guard let usage = lines.first, !usage.contains(" COMMAND") else { continue }
                let words = usage.split(separator: " ")
                let name = words.prefix { !$0.hasPrefix("-") && $0.allSatisfy { $0.isLowercase || $0 == "-" } }
                let options = lines.filter { $0.hasPrefix("  --") }.map { $0.split(separator: " ").map(String.init) }
                usages.append((name.joined(separator: " "), options))
            }
        }
        return usages
    }
}
