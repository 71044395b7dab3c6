/// Writes repeated entries once, for example when a thousand queues lose APNs for the same reason.
///
/// The first entry of a cause is written at once. The next ones are held back. After five seconds one entry says how
/// many there were, and then one a minute while they continue. A minute without any ends the burst.
///
/// A value without a clock: its owner passes the time.
struct LogBursts {
    /// How long after the first entry the held-back entries are first summed up.
    static let gathering = Duration.seconds(5)
    /// The interval between further summaries.
    static let quiet = Duration.seconds(60)
    /// The maximum number of causes that are distinguished. Beyond it, all entries of one event count as one cause.
    static let maximumCauses = 100
    /// How often the opposite event makes an entry news again, if the two alternate without a minute of rest.
    static let maximumTurns = 5

    private struct Burst {
        var beginsAt: ContinuousClock.Instant
        var endsAt: ContinuousClock.Instant
        /// Whether the time after the first entry is over.
        var isQuiet = false
        /// Whether a summary has been written.
        var hasSummary = false
        /// Whether the opposite event has been written since.
        var isOver = false
        /// How often the opposite event has been written.
        var turns = 0
        var heldBack = 0
        /// The first queues or tenants of the entries that were held back.
        var names: [String] = []
        var last: LogEntry
        var lastAt: ContinuousClock.Instant

        mutating func holdBack(_ entry: LogEntry, at now: ContinuousClock.Instant) {
            heldBack += 1
            // One more than are named, because the last entry names its own.
            if let name = entry.subject?.name, names.count <= LogEntry.Repetition.maximumNames, !names.contains(name) {
                names.append(name)
            }
            (last, lastAt) = (entry, now)
        }

        /// Returns the summary of the entries that were held back; nil if there were none. Restarts the count.
        mutating func summary(at now: ContinuousClock.Instant) -> LogEntry? {
            defer { (heldBack, names, beginsAt, endsAt, isQuiet) = (0, [], now, now + LogBursts.quiet, true) }
            guard heldBack > 0 else { return nil }
            var entry = last
            let others = names.filter { $0 != last.subject?.name }.prefix(LogEntry.Repetition.maximumNames)
            entry.repetition = .init(
                count: heldBack, time: beginsAt.duration(to: now), isFurther: hasSummary, others: Array(others))
            hasSummary = true
            return entry
        }
    }

    private var bursts: [String: Burst] = [:]

    /// Takes an entry. Returns the entries to write now: none if it is held back.
    mutating func take(_ entry: LogEntry, at now: ContinuousClock.Instant) -> [LogEntry] {
        guard !entry.isLast else { return rest(at: now) + [entry] }
        guard let key = key(of: entry) else { return end(entry.opposites, at: now) + [entry] }
        if let burst = bursts[key], !burst.isOver || burst.turns > Self.maximumTurns {
            bursts[key]!.holdBack(entry, at: now)
            return []
        }
        // What was held back of other causes of the event came before.
        let ended = end(entry.opposites, at: now) + say(at: now) { $0.heldBack > 0 && $0.last.event == entry.event }
        bursts[key] = Burst(
            beginsAt: now, endsAt: now + Self.gathering, turns: bursts[key]?.turns ?? 0, last: entry, lastAt: now)
        return ended + [entry]
    }

    /// Returns the summaries of bursts whose interval is over.
    mutating func due(at now: ContinuousClock.Instant) -> [LogEntry] {
        say(at: now) { now >= $0.endsAt }
    }

    /// Returns the remaining summaries, when the program ends.
    mutating func rest(at now: ContinuousClock.Instant) -> [LogEntry] {
        say(at: now) { _ in true }
    }

    /// Returns the summaries in the order in which the bursts' last entries came, so that the last line is the current
    /// state. With a summary come those of the same event's other causes, and of its opposites, whichever was last.
    private mutating func say(at now: ContinuousClock.Instant, _ isDue: (Burst) -> Bool) -> [LogEntry] {
        var entries: [LogEntry] = []
        let due = bursts.values.filter { isDue($0) && $0.heldBack > 0 }
        let events = Set(due.flatMap { [$0.last.event] + $0.last.opposites })
        let said = bursts.filter { isDue($1) || $1.heldBack > 0 && events.contains($1.last.event) }
        for (key, burst) in said.sorted(by: { $0.value.lastAt < $1.value.lastAt }) {
            let isLast = burst.heldBack == 0 && burst.isQuiet
            if let entry = bursts[key]!.summary(at: now) { entries.append(entry) }
            if isLast { bursts[key] = nil }
        }
        return entries
    }

    /// Ends the bursts of these events because their opposite is written. Returns their summaries, which come before
    /// the opposite. The next of these events is news again, at most `maximumTurns` times.
    private mutating func end(_ events: [String], at now: ContinuousClock.Instant) -> [LogEntry] {
        var entries: [LogEntry] = []
        for (key, burst) in bursts where events.contains(burst.last.event) && (!burst.isOver || burst.heldBack > 0) {
            if let entry = bursts[key]!.summary(at: now) { entries.append(entry) }
            guard !burst.isOver else { continue }
            bursts[key]!.isOver = true
            bursts[key]!.turns += 1
        }
        return entries
    }

    /// Returns the key of entries that are held back together: entries of one event whose causes differ only in
    /// numbers, such as addresses.
    private func key(of entry: LogEntry) -> String? {
        guard let cause = entry.cause else { return nil }
        let key = "\(entry.event) \(cause.filter { !$0.isNumber })"
        return bursts[key] == nil && bursts.count >= Self.maximumCauses ? entry.event : key
    }
}
