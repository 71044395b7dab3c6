package import Foundation
package import LocalStack

/// An executable of this package, built beside the running program (the tests, or `Chaos`), or another executable.
package struct Executable: Sendable {
    private let path: String

    package static let pushq = Executable("pushq")
    package static let admin = Executable("pushq-admin")

    /// An executable that does not belong to this package.
    package init(path: String) { self.path = path }

    private init(_ name: String) { path = "\(Self.folder)/\(name)" }

    /// The folder of this package's executables.
    package static var folder: String {
        let tests = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(fileURLWithPath: tests ?? CommandLine.arguments[0]).deletingLastPathComponent().path
    }

    /// The exit code of a run, and what the run printed.
    package struct Ended: Sendable {
        /// Nil if a signal ended the process, or if it did not end.
        package let code: Int32?
        package let output: String
        package let errors: String
    }

    /// Runs the executable to its end, by default for at most a minute.
    ///
    /// - Parameter environment: added to an environment without variables of pushq or libpq.
    package func run(
        _ arguments: [String], environment: [String: String] = [:], input: String? = nil,
        within limit: Duration = .seconds(60)
    ) async throws -> Ended {
        let folder = try TemporaryFolder()
        if let input { try folder.write(input, to: "input") }
        let handle = try input.map { _ in try FileHandle(forReadingFrom: folder.url("input")) }
        let process = try start(
            arguments, environment: environment, input: handle?.fileDescriptor, output: folder.path("output"),
            errors: folder.path("errors"))
        let exit = await process.waitForExit(within: limit)
        if exit == nil { process.signal(SIGKILL) }
        try handle?.close()
        guard case .code(let code) = exit else {
            return Ended(code: nil, output: folder.read("output"), errors: folder.read("errors"))
        }
        return Ended(code: code, output: folder.read("output"), errors: folder.read("errors"))
    }

    /// Starts the executable. It ends with the test process at the latest.
    ///
    /// - Parameters:
    ///   - output: the file to which its standard output is appended.
    ///   - errors: the file to which its standard error is appended.
    package func start(
        _ arguments: [String], environment: [String: String] = [:], input: CInt? = nil, output: String, errors: String
    ) throws -> ChildProcess {
        var command = command(arguments, environment: environment, output: output, errors: errors)
        command.input = input
        return try Self.reaper.get().start(command)
    }

    /// The command that starts the executable, for a test that has its own reaper.
    package func command(
        _ arguments: [String], environment: [String: String] = [:], output: String, errors: String
    ) -> ProcessCommand {
        var command = ProcessCommand(path, arguments, environment: Self.plain.merging(environment) { $1 })
        command.output = .file(output)
        command.errors = .file(errors)
        return command
    }

    private static let reaper = Result { try Reaper() }

    private static let plain = ProcessInfo.processInfo.environment.filter { variable in
        !variable.key.hasPrefix("PG") && !variable.key.hasPrefix("PUSHQ_")
    }
}

/// A folder that is removed when this value is released.
package final class TemporaryFolder: Sendable {
    private let folder: URL

    /// Creates an empty folder. Its name contains a space and non-ASCII letters, which all programs must handle.
    package init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "pushq tést \(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: folder)
    }

    package func url(_ name: String) -> URL { folder.appending(path: name) }
    package func path(_ name: String) -> String { url(name).path }

    /// Writes a file and returns its path.
    @discardableResult
    package func write(_ text: String, to name: String) throws -> String {
        try Data(text.utf8).write(to: url(name))
        return path(name)
    }

    /// The content of a file; empty if there is no such file.
    package func read(_ name: String) -> String {
        (try? String(contentsOf: url(name), encoding: .utf8)) ?? ""
    }
}
