/// The exit code of a program.
package enum ExitCode: Int32, Sendable {
    /// Everything was done.
    case done = 0
    /// The command failed.
    case failed = 1
    /// The command line is wrong.
    case usage = 2
    /// The command started its work, but stopped waiting for the end: after its timeout, or because the user
    /// interrupted it.
    case unfinished = 3
}
