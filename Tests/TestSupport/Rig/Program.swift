import Foundation
package import LocalStack

/// The executables of this package, as they were built beside the program that runs now: a test bundle, or `Chaos`.
package enum Program {
    /// The path of an executable of this package.
    /// - Throws: ``NeverHappened`` if it has not been built.
    package static func path(of name: String) throws -> String {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let path = URL(fileURLWithPath: own).deletingLastPathComponent().appending(path: name).path
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw NeverHappened(description: "\(path) is not there; build it with: swift build")
        }
        return path
    }

    /// A command that runs it, in this process's environment with `additions`.
    package static func command(
        _ name: String, _ arguments: [String], adding additions: [String: String] = [:]
    ) throws -> Command {
        let environment = ProcessInfo.processInfo.environment.merging(additions) { $1 }
        return Command(try path(of: name), arguments, environment: environment)
    }
}
