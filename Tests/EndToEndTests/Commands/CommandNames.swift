import Foundation
import TestSupport

extension Executable {
    /// The names of all commands of both programs, as the programs list them: `pushq-admin queue set`.
    /// - Parameter option: only commands with this option.
    static func commandNames(with option: String? = nil) async throws -> Set<String> {
        var names: Set<String> = []
        for executable in [Executable.pushq, .admin] {
            let sections = try await executable.run(["help", "--markdown"]).output.components(separatedBy: "\nUsage: ")
            for section in sections.dropFirst() {
                let lines = section.split(separator: "\n")
                guard let usage = lines.first, !usage.contains(" COMMAND") else { continue }
                if let option, !lines.contains(where: { $0.hasPrefix("  \(option) ") }) { continue }
                let words = usage.split(separator: " ")
                let name = words.prefix { !$0.hasPrefix("-") && $0.allSatisfy { $0.isLowercase || $0 == "-" } }
                names.insert(name.joined(separator: " "))
            }
        }
        return names
    }
}
