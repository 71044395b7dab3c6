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
    /// A shorter bar shows nothing.
    private static let minimumWidth = 5

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
        // The last column stays free: some terminals go on in the next line as soon as it is written.
        let width = console.lineWidth.map { $0 - 1 }
        console.paint("\r\(line(done, elapsed: now - started, detail: detail, width: width))\u{1B}[K")
    }

    /// Takes the line away, so that what follows stands on a clean one.
    package func finish() {
        if drawn != nil { console.paint("\r\u{1B}[K") }
        drawn = nil
    }

    /// The line, no longer than `width`: the bar gives way first, then the details.
    func line(_ done: Int, elapsed: Duration, detail: String, width: Int? = nil) -> String {
        let rate = elapsed.seconds > 0.2 ? "  \(NumberText.grouped(Int(Double(done) / elapsed.seconds)))/s" : ""
        let more = detail.isEmpty ? "" : "  \(detail)"
        guard let total, total > 0 else {
            return String("\(label)  \(NumberText.grouped(done))\(rate)\(more)".prefix(width ?? .max))
        }
        let share = min(1, Double(done) / Double(total))
        let count = "\(NumberText.grouped(done)) of \(NumberText.grouped(total))"
        let figures = "\(Int(share * 100))%  \(count)\(rate)\(more)"
        let room = width.map { $0 - label.count - figures.count - 3 } ?? Self.width
        guard room >= Self.minimumWidth else { return String("\(label)  \(figures)".prefix(width ?? .max)) }
        let barWidth = min(Self.width, room)
        let filled = Int(share * Double(barWidth))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: barWidth - filled)
        return "\(label)  \(bar) \(figures)"
    }
}
