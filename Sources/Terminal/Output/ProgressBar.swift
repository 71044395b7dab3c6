/// A line that is redrawn while something long goes on, for people only: in a pipe nothing is written.
package final class ProgressBar {
    private let console: Console
    private let label: String
    private let total: Int?
    private let started: ContinuousClock.Instant
    private var drawn: ContinuousClock.Instant?

    /// Ten times a second is smooth enough and costs nothing.
    private static let interval = Duration.milliseconds(100)
    private static let width = 30

    /// A bar for `total` things; without a total it counts.
    package init(_ label: String, total: Int?, on console: Console) {
        self.console = console
        self.label = label
        self.total = total
        started = .now
    }

    /// Shows that `done` are done, if the last drawing is long enough ago.
    package func update(_ done: Int, detail: String = "") {
        let now = ContinuousClock.now
        guard console.isWatched, drawn.map({ now - $0 >= Self.interval }) ?? true else { return }
        drawn = now
        console.paint("\r\(line(done, elapsed: now - started, detail: detail))\u{1B}[K")
    }

    /// Takes the line away, so that what follows stands on a clean one.
    package func finish() {
        if drawn != nil { console.paint("\r\u{1B}[K") }
        drawn = nil
    }

    func line(_ done: Int, elapsed: Duration, detail: String) -> String {
        let rate = elapsed.seconds > 0.2 ? "  \(NumberText.grouped(Int(Double(done) / elapsed.seconds)))/s" : ""
        let more = detail.isEmpty ? "" : "  \(detail)"
        guard let total, total > 0 else { return "\(label)  \(NumberText.grouped(done))\(rate)\(more)" }
        let share = min(1, Double(done) / Double(total))
        let filled = Int(share * Double(Self.width))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: Self.width - filled)
        let count = "\(NumberText.grouped(done)) of \(NumberText.grouped(total))"
        return "\(label)  \(bar) \(Int(share * 100))%  \(count)\(rate)\(more)"
    }
}
