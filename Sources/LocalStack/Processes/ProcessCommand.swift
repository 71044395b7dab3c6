import Glibc
import Transport

/// A program to start, with its arguments, environment, folder and streams.
package struct ProcessCommand: Sendable {
    /// The destination of a process's output.
    package enum Output: Sendable {
        case inherited
        case discarded
        /// Appended to this file.
        case file(String)
        /// An open descriptor, which stays open in this process.
        case descriptor(CInt)
    }

    /// An absolute path; PATH is not searched.
    package var executable: String
    package var arguments: [String]
    /// The whole environment: nothing is inherited.
    package var environment: [String: String]
    /// The folder in which it runs. The default is `/`, because the process may not be allowed to read the current
    /// directory.
    package var folder = "/"
    /// The standard input; `/dev/null` if nil.
    package var input: CInt?
    package var output = Output.inherited
    package var errors = Output.inherited

    /// This process's environment without secrets: a server does not need the master key of the user who starts it.
    package static var inheritedEnvironment: [String: String] {
        ThisProcess.environment.filter { !secretVariables.contains($0.key) }
    }

    private static let secretVariables: Set = ["PUSHQ_MASTER_KEY", "PUSHQ_DATABASE_URL", "PGPASSWORD"]

    /// - Parameter environment: ``inheritedEnvironment`` unless given.
    package init(
        _ executable: String, _ arguments: [String] = [], environment: [String: String] = Self.inheritedEnvironment
    ) {
        self.executable = executable
        self.arguments = arguments
        self.environment = environment
    }

    /// Starts the process and returns its ID.
    func spawn() throws(LocalStackError) -> Int32 {
        guard unsafe access(executable, X_OK) == 0 else {
            throw .cannotStart(executable: executable, reason: unsafe String(cString: strerror(errno)))
        }
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe Self.connect(input.map { .descriptor($0) } ?? .discarded, to: STDIN_FILENO, in: &actions)
        unsafe Self.connect(output, to: STDOUT_FILENO, in: &actions)
        unsafe Self.connect(errors, to: STDERR_FILENO, in: &actions)

        var attributes = posix_spawnattr_t()
        unsafe posix_spawnattr_init(&attributes)
        defer { unsafe posix_spawnattr_destroy(&attributes) }
        Self.setUp(&attributes)

        var processID: Int32 = 0
        // The shell changes to the folder and becomes the command, because the part of posix_spawn that Swift imports
        // cannot change the folder.
        let words = ["/bin/sh", "-c", #"cd "$0" && exec "$@""#, folder, executable] + arguments
        let code = unsafe withCStrings(words) { argv in
            unsafe withCStrings(environment.map { "\($0.key)=\($0.value)" }) { envp in
                unsafe posix_spawn(&processID, words[0], &actions, &attributes, argv, envp)
            }
        }
        guard code == 0 else {
            throw .cannotStart(executable: executable, reason: unsafe String(cString: strerror(code)))
        }
        return processID
    }

    private static func connect(
        _ output: Output, to number: CInt, in actions: inout posix_spawn_file_actions_t
    ) {
        switch output {
        case .inherited: break
        case .discarded: unsafe posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_RDWR, 0)
        case .file(let path):
            unsafe posix_spawn_file_actions_addopen(&actions, number, path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        case .descriptor(let descriptor): unsafe posix_spawn_file_actions_adddup2(&actions, descriptor, number)
        }
    }

    /// Gives the child its own process group, with no signal blocked or ignored. Otherwise it would inherit this
    /// program's blocked and ignored signals.
    private static func setUp(_ attributes: inout posix_spawnattr_t) {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe posix_spawnattr_setsigmask(&attributes, &signals)
        unsafe sigfillset(&signals)
        unsafe posix_spawnattr_setsigdefault(&attributes, &signals)
        unsafe posix_spawnattr_setpgroup(&attributes, 0)
        let flags = Int16(POSIX_SPAWN_SETSIGMASK) | Int16(POSIX_SPAWN_SETSIGDEF) | Int16(POSIX_SPAWN_SETPGROUP)
        unsafe posix_spawnattr_setflags(&attributes, flags)
    }
}

/// Calls `body` with a null-terminated array of C strings.
private func withCStrings<Result>(
    _ strings: [String], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
    var pointers = unsafe strings.map { unsafe strdup($0) }
    unsafe pointers.append(nil)
    defer { for index in unsafe pointers.indices { unsafe free(pointers[index]) } }
    return unsafe body(pointers)
}
