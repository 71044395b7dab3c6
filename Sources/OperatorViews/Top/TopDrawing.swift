import FoundationEssentials
import PostgresStore
import QueueCore
package import Terminal
package import Transport

/// Draws the screen: takes a value and returns lines.
package struct TopDrawing {
    private let state: TopState
    private let figures: TopFigures
    private let columns: Int
    private let rows: Int
    private let every: Duration

    /// - Parameter every: how often the database is queried, for the first line.
    package init(_ state: TopState, _ figures: TopFigures, size: TerminalScreen.Size, every: Duration) {
        self.state = state
        self.figures = figures
        // Some terminals continue in the next line as soon as the last column is written.
        columns = max(1, size.columns - 1)
        rows = max(1, size.rows)
        self.every = every
    }

    /// The number of a table's rows on the screen: all lines except those above and below it.
    package var page: Int { max(1, rows - head.count - 2) }

    /// The lines of the screen, at most as many as it has rows.
    package var lines: [StyledLine] {
        let room = max(0, rows - head.count - 1)
        let body = state.prompt == .help ? help : table
        let shown = Array((head + body.prefix(room)).prefix(rows - 1))
        return shown + [StyledLine](repeating: "", count: rows - 1 - shown.count) + [foot]
    }

    // MARK: Above

    private var head: [StyledLine] {
        var title = StyledLine("pushq-admin top", .bold)
        title.append("  \(Self.clock(figures.takenAt))  every \(every.shown)", .dim)
        if let matching = state.matching { title.append("  names with “\(matching)”", .doubtful) }
        return [title, queueSums, workerSums, StyledLine()]
    }

    private var queueSums: StyledLine {
        let loads = figures.loads
        let shown = NumberText.grouped(loads.queues.count)
        var line = StyledLine("queues ")
        line.append(loads.hasMore ? "\(shown) of \(NumberText.grouped(loads.found))" : shown, .bold)
        let paused = loads.queues.count { $0.pausedReason != nil || $0.isSuspended }
        if paused > 0 { line.append(" (\(paused) paused)", .doubtful) }
        let waiting = loads.sum(\.waitingRecipients)
        line.append("  waiting ")
        line.append(NumberText.grouped(waiting) + (loads.isPartial ? "+" : ""), .bold)
        if let oldest = loads.oldest {
            line.append("  oldest ")
            line.append(NumberText.short(oldest), oldest > Self.longWait ? .doubtful : .bold)
        }
        line.append("  sent ")
        line.append("\(Cell.decimal(loads.sentPerSecond, places: loads.sentPerSecond < 10 ? 1 : 0).text)/s", .bold)
        line.append("  in flight ")
        line.append(NumberText.grouped(loads.sum(\.inFlight)), .bold)
        return line
    }

    private var workerSums: StyledLine {
        var line = StyledLine()
        if let workers = figures.workers {
            line.append("workers ")
            line.append(NumberText.grouped(workers.count), workers.isEmpty ? .bad : .bold)
            let silent = workers.count(where: \.isSilent)
            if silent > 0 { line.append(" (\(silent) silent)", .bad) }
            let refused = workers.count { $0.state == .refused }
            if refused > 0 { line.append(" (\(refused) refused)", .bad) }
            let sum = { (figure: (WorkerSummary) -> Int) in workers.reduce(0) { $0 + figure($1) } }
            line.append("  connections ")
            line.append(NumberText.grouped(sum(\.connections)), .bold)
            line.append("  streams ")
            line.append("\(NumberText.grouped(sum(\.inFlight))) of \(NumberText.grouped(sum(\.streams)))", .bold)
            line.append("  ")
        }
        let times = figures.loads.answerTimes
        if let median = times.duration(of: 0.5) {
            line.append("answers within ")
            line.append(NumberText.short(median), .bold)
            if let most = times.duration(of: 0.99) {
                line.append(", 99% within ")
                line.append(NumberText.short(most), .bold)
            }
        }
        return line.text.isEmpty ? StyledLine("nothing was sent in the last seconds", .dim) : line
    }

    /// A wait is highlighted from this time on.
    private static let longWait = Duration.seconds(60)

    private static func clock(_ date: Date) -> String {
        // All tables of pushq show times in UTC.
        let seconds = Int(date.timeIntervalSince1970) % 86_400
        let two = { (number: Int) in number < 10 ? "0\(number)" : "\(number)" }
        return "\(two(seconds / 3600)):\(two(seconds / 60 % 60)):\(two(seconds % 60)) UTC"
    }

    // MARK: The tables

    private var table: [StyledLine] {
        switch state.view {
        case .queues: queueTable
        case .workers:
            LiveTable(TopColumns.liveWorkers, figures.workers ?? [], columns: columns).lines(
                style: { $0.isSilent ? .bad : .plain })
                ?? [StyledLine(figures.workers == nil ? Self.workersRefused : "no worker is running: pushq work")]
        case .answers:
            LiveTable(TopColumns.liveReasons, figures.loads.reasons, columns: columns).lines(style: { _ in .plain })
                ?? ["nothing was answered in the last seconds"]
        }
    }

    private static let workersRefused = "workers send for all tenants: only operators see them"

    private var queueTable: [StyledLine] {
        let queues = state.sorted(figures.loads.queues)
        let place = queues.firstIndex { $0.queue == state.selected } ?? 0
        let first = place / page * page
        let shown = Array(queues.dropFirst(first).prefix(page))
        let selected = queues.indices.contains(place) ? queues[place].queue : nil
        let table = LiveTable(TopColumns.liveQueues, shown, columns: columns)
        return table.lines(
            style: { load -> TextStyle in
                if load.queue == selected { return .reversed }
                switch load.state {
                case "outage", "unreachable", "no credential", "credential unusable": return .bad
                case "paused", "suspended": return .doubtful
                case "idle": return .dim
                default: return .plain
                }
            }) ?? [
                StyledLine(
                    state.matching == nil ? "there are no queues" : "no queue has this in its name: Esc shows all")
            ]
    }

    // MARK: Below

    private var foot: StyledLine {
        switch state.prompt {
        case .filter(let text): return StyledLine("names with: \(text)▏  (Enter: show them, Esc: leave it)", .bold)
        case .confirm(.pause(let queue)): return StyledLine("pause \(queue)? y: yes, any other key: no", .bold)
        case .confirm(.resume(let queue)): return StyledLine("resume \(queue)? y: yes, any other key: no", .bold)
        case .help: return StyledLine("any key goes back", .bold)
        case nil: break
        }
        if let problem = state.problem {
            return StyledLine("no answer since \(Self.clock(figures.takenAt)): \(problem)", .bad)
        }
        if let note = state.note { return StyledLine(note, .bold) }
        return StyledLine(keys, .dim)
    }

    /// A summary of the keys, as long as the screen is wide enough for.
    private var keys: String {
        let texts = [
            "q quit  1 queues  2 workers  3 answers  s by \(state.order.rawValue)  / filter  p pause  ? help",
            "q quit  1 2 3 views  s order  / filter  p pause  ? help",
        ]
        return texts.first { $0.terminalColumns <= columns } ?? "q quit  ? help"
    }

    private var help: [StyledLine] {
        Self.help.flatMap { name, meaning in
            TextLayout.entry(name, meaning, indent: 13, width: columns).map { StyledLine($0) }
        }
    }

    /// The meaning of the keys and figures.
    private static let help = [
        ("1 2 3", "queues, workers, answers of APNs; Tab goes to the next"),
        ("↑ ↓", "select a queue; also k and j, Page Up and Page Down, Home and End"),
        ("s", "order: oldest, waiting, sent, in-flight, refused, name"),
        ("/", "show the queues with a text in their names; Esc shows all"),
        ("p", "pause or resume the selected queue, after a question"),
        ("r", "ask the database now"),
        ("q", "quit; so does Ctrl-C. Ctrl-Z stops the program"),
        ("", ""),
        ("waiting", "recipients that are due; + when there are more than were counted"),
        ("oldest", "how long the first of them has been due"),
        ("sent/s", "requests to APNs in the last seconds, over all workers"),
        ("limit", "the queue's or its tenant's rate, whichever is lower"),
        ("median p99", "time from a request to its answer"),
        ("refused", "share of the last answers; reason: the most frequent"),
        ("state", "outage: APNs refuses most pushes or answers none; unreachable: it cannot be connected to"),
    ]
}
