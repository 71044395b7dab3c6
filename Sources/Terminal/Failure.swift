/// A command throws this after it has reported what went wrong, to end with exit code 1 or another.
package struct Unsuccessful: Error {
    let code: ExitCode

    package init(_ code: ExitCode = .failed) {
        self.code = code
    }
}

/// A command throws this if it failed. One line says what was tried, what happened and what to do.
package struct Failure: Error, CustomStringConvertible {
    package let description: String

    /// One line, without a full stop.
    package init(_ description: String) {
        self.description = description
    }
}
