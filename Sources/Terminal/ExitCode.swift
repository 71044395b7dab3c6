/// What a program tells its caller when it ends.
package enum ExitCode: Int32, Sendable {
    /// All that was asked for was done.
    case done = 0
    /// It was tried and failed.
    case failed = 1
    /// The command line cannot be carried out as it stands.
    case usage = 2
    /// It was done, but waiting for its end was given up: the time was up, or somebody interrupted.
    case unfinished = 3
}
