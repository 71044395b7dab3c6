/// The progress of something long. On a terminal it redraws a line; elsewhere it writes a line for a log now and then.
package final class ProgressBar {
    private let console: Console
    private let label: String
    /// The number of things. Without it, the bar only counts. It may become known late, and change.
    package var total: Int?
    private let started = ContinuousClock.now
    /// The count at the first update, and its time. The first update may come half-way.
    private var first: (done: Int, at: Duration)?
    /// When the bar was last drawn; nil if no line is on the terminal.
    private var drawn: Duration?
    /// When the last line for a log was written, and how many tenths were done then.
    private var logged: (at: Duration, tenths: Int)?

    /// The interval between drawings. Ten times a second is smooth enough and costs little.
    private static let interval = Duration.milliseconds(100)
    /// Another line is written to a log when a further tenth is done and the shortest silence is over, or after the
    /// longest silence.
    private static let (shortestSilence, longestSilence) = (Duration.seconds(1), Duration.seconds(30))
    private static let width = 30
    /// A shorter bar would show nothing.
    private static let minimumWidth = 5

    /// A bar for `total` things; without a total it counts.
    package init(_ label: String, total: Int?, on console: Console) {
        self.console = console
        self.label = label
        self.total = total
    }

    /// Shows the number of things done, if the last drawing or line is long enough ago.
    package func update(_ done: Int, detail: String = "") {
        update(done, detail: detail, at: ContinuousClock.now - started)
    }

    /// - Parameter elapsed: the time since the bar was made.
    func update(_ done: Int, detail: String = "", at elapsed: Duration) {
        if console.isWatched {
            guard drawn.map({ elapsed - $0 >= Self.interval }) ?? true else { return }
            drawn = elapsed
            // The last column stays free, because some terminals move to the next line once it is written.
            let width = console.lineWidth.map { $0 - 1 }
            console.paint("\r\(line(done, at: elapsed, detail: detail, width: width))\u{1B}[K")
        } else if isDue(done, at: elapsed) {
            console.remark(line(done, at: elapsed, detail: detail, hasBar: false))
        }
    }

    /// Clears the line for the text that follows.
    package func finish() {
        if drawn != nil { console.paint("\r\u{1B}[K") }
        drawn = nil
    }

    /// Whether it is time for another line in a log.
    private func isDue(_ done: Int, at elapsed: Duration) -> Bool {
        note(done, at: elapsed)
        let tenths = total.map { $0 > 0 ? done * 10 / $0 : 0 } ?? 0
        guard let last = logged else {
            logged = (elapsed, tenths)
            return false
        }
        let silence = elapsed - last.at
        guard silence >= Self.longestSilence || silence >= Self.shortestSilence && tenths > last.tenths else {
            return false
        }
        logged = (elapsed, tenths)
        return true
    }

    private func note(_ done: Int, at elapsed: Duration) {
        if first == nil { first = (done, elapsed) }
    }

    /// Returns the line, at most `width` columns long. If there is too little room, it omits the bar first and then
    /// cuts the details.
    func line(_ done: Int, at elapsed: Duration, detail: String = "", width: Int? = nil, hasBar: Bool = true) -> String
    {
        note(done, at: elapsed)
        let more = detail.isEmpty ? "" : "  \(detail)"
        let pace = pace(done, at: elapsed)
        guard let total, total > 0 else {
            return String("\(label)  \(NumberText.grouped(done))\(pace)\(more)".prefix(width ?? .max))
        }
        let share = min(1, Double(done) / Double(total))
        let count = "\(NumberText.grouped(done)) of \(NumberText.grouped(total))"
        let figures = "\(Int(share * 100))%  \(count)\(pace)\(more)"
        let room = width.map { $0 - label.count - figures.count - 3 } ?? Self.width
        guard hasBar, room >= Self.minimumWidth else { return String("\(label)  \(figures)".prefix(width ?? .max)) }
        let barWidth = min(Self.width, room)
        let filled = Int(share * Double(barWidth))
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: barWidth - filled)
        return "\(label)  \(bar) \(figures)"
    }

    /// Returns the rate since the first update, and how long the rest takes at that rate.
    private func pace(_ done: Int, at elapsed: Duration) -> String {
        guard let first, done > first.done, (elapsed - first.at).seconds > 0.2 else { return "" }
        let rate = Double(done - first.done) / (elapsed - first.at).seconds
        let shown = "  \(NumberText.grouped(Int(rate)))/s"
        guard let total, total > done else { return shown }
        let left = Duration.seconds((Double(total - done) / rate).rounded(.up))
        return "\(shown)  \(NumberText.short(left)) left"
    }
}
