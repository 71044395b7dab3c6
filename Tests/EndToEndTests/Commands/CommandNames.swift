import TestSupport

extension Executable {
    /// The names of all commands of both programs, as these tell them: `pushq-admin queue set`.
    static func commandNames() async throws -> Set<String> {
        var names: Set<String> = []
        for executable in [Executable.pushq, .admin] {
            let lines = try await executable.run(["help", "--markdown"]).output.split(separator: "\n")
            for line in lines where line.hasPrefix("Usage: ") && !line.contains(" COMMAND") {
                let words = line.split(separator: " ").dropFirst()
                let name = words.prefix { !$0.hasPrefix("-") && $0.allSatisfy { $0.isLowercase || $0 == "-" } }
                names.insert(name.joined(separator: " "))
            }
        }
        return names
    }
}
