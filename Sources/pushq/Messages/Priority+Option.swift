import QueueCore
import Terminal

extension Priority {
    /// Checks a value of `--priority`. One that APNs does not know is wrong with any message, so the command line is
    /// wrong.
    static func check(option number: Int) throws(UsageError) {
        guard Priority(rawValue: number) == nil else { return }
        throw UsageError("--priority \(number) is unknown: use 10, 5 or 1")
    }
}
