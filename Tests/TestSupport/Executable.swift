package import Foundation
package import LocalStack

/// An executable of this package, built beside the program that runs now: the tests, or `Chaos`. Or another one.
package struct Executable: Sendable {
    private let path: String

    package static let pushq = Executable("pushq")
    package static let admin = Executable("pushq-admin")

    /// One that is not of this package.
    package init(path: String) { self.path = path }

    private init(_ name: String) { path = "\(Self.folder)/\(name)" }

    /// Where this package's executables are.
    package static var folder: String {
        let tests = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(fileURLWithPath: tests ?? CommandLine.arguments[0]).deletingLastPathComponent().path
    }

    /// How a run ended, and what it said.
    package struct Ended: Sendable {
        /// Nil if a signal ended it, or if it did not end.
        package let code: Int32?
        package let output: String
        package let errors: String
    }

    /// Runs it to its end, for a minute at most if nothing else is said.
    ///
    /// - Parameter environment: on top of an environment that has nothing of pushq's or libpq's.
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

    /// Starts it. It ends with the test process, if not before.
    ///
    /// - Parameters:
    ///   - output: the file that its standard output is added to.
    ///   - errors: the file that its standard error is added to.
    package func start(
        _ arguments: [String], environment: [String: String] = [:], input: CInt? = nil, output: String, errors: String
    ) throws -> ChildProcess {
        var command = command(arguments, environment: environment, output: output, errors: errors)
        command.input = input
        return try Self.minder.get().start(command)
    }

    /// The command by which it is started, for a minder of one's own.
    package func command(
        _ arguments: [String], environment: [String: String] = [:], output: String, errors: String
    ) -> ProcessCommand {
        var command = ProcessCommand(path, arguments, environment: Self.plain.merging(environment) { $1 })
        command.output = .file(output)
        command.errors = .file(errors)
        return command
    }

    private static let minder = Result { try Minder() }

    private static let plain = ProcessInfo.processInfo.environment.filter { variable in
        !variable.key.hasPrefix("PG") && !variable.key.hasPrefix("PUSHQ_")
    }
}

/// A folder that is removed with the value that stands for it.
package final class TemporaryFolder: Sendable {
    private let folder: URL

    /// An empty folder. Its name has a space and an umlaut in it, which nothing may stumble over.
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

    /// What a file holds; empty without it.
    package func read(_ name: String) -> String {
        (try? String(contentsOf: url(name), encoding: .utf8)) ?? ""
    }
}
