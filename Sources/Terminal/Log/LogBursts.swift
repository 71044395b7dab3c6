/// Has the same thing said once where it would be said a thousand times, as when a thousand queues lose APNs for one
/// reason.
///
/// The first entry of a cause is said at once. The next ones are held back: after five seconds one entry says how many
/// there were, and from then on one a minute, as long as they come. A minute without any ends the burst.
///
/// A value without a clock: its owner passes the time.
struct LogBursts {
    /// How long after the first entry the others are counted together for the first time.
    static let gathering = Duration.seconds(5)
    /// How long they are counted together from then on.
    static let quiet = Duration.seconds(60)
    /// The most causes that are told apart. Beyond them, all of one event are one.
    static let maximumCauses = 100
    /// How often the opposite makes an entry news again, if it comes and goes without a minute of rest.
    static let maximumTurns = 5

    private struct Burst {
        var beginsAt: ContinuousClock.Instant
        var endsAt: ContinuousClock.Instant
        /// Whether the time after the first entry is over.
        var isQuiet = false
        /// Whether it has been said that there were more.
        var goesOn = false
        /// Whether the opposite has been said since.
        var isOver = false
        /// How often the opposite has been said.
        var turns = 0
        var heldBack = 0
        var last: LogEntry
        var lastAt: ContinuousClock.Instant

        /// What is to be said of those that were held back; nil if there were none. Counts anew.
        mutating func summary(at now: ContinuousClock.Instant) -> LogEntry? {
            defer { (heldBack, beginsAt, endsAt, isQuiet) = (0, now, now + LogBursts.quiet, true) }
            guard heldBack > 0 else { return nil }
            var entry = last
            entry.repetition = .init(count: heldBack, time: beginsAt.duration(to: now), goesOn: goesOn)
            goesOn = true
            return entry
        }
    }

    private var bursts: [String: Burst] = [:]

    /// Takes an entry. Returns what is to be said now: nothing if it is held back.
    mutating func take(_ entry: LogEntry, at now: ContinuousClock.Instant) -> [LogEntry] {
        guard let key = key(of: entry) else { return end(entry.opposites, at: now) + [entry] }
        if let burst = bursts[key], !burst.isOver || burst.turns > Self.maximumTurns {
            bursts[key]!.heldBack += 1
            bursts[key]!.last = entry
            bursts[key]!.lastAt = now
            return []
        }
        let ended = end(entry.opposites, at: now)
        bursts[key] = Burst(
            beginsAt: now, endsAt: now + Self.gathering, turns: bursts[key]?.turns ?? 0, last: entry, lastAt: now)
        return ended + [entry]
    }

    /// What is to be said of bursts whose time is over.
    mutating func due(at now: ContinuousClock.Instant) -> [LogEntry] {
        say(at: now) { now >= $0.endsAt }
    }

    /// What is still to be said when the program ends.
    mutating func rest(at now: ContinuousClock.Instant) -> [LogEntry] {
        say(at: now) { _ in true }
    }

    /// The last of each burst in the order in which they came, so that the last line is what holds now.
    private mutating func say(at now: ContinuousClock.Instant, _ isDue: (Burst) -> Bool) -> [LogEntry] {
        var entries: [LogEntry] = []
        for (key, burst) in bursts.sorted(by: { $0.value.lastAt < $1.value.lastAt }) where isDue(burst) {
            let isLast = burst.heldBack == 0 && burst.isQuiet
            if let entry = bursts[key]!.summary(at: now) { entries.append(entry) }
            if isLast { bursts[key] = nil }
        }
        return entries
    }

    /// Ends the bursts of events because their opposite is said: what was held back is said before it, and the next of
    /// these events is news again, a few times.
    private mutating func end(_ events: [String], at now: ContinuousClock.Instant) -> [LogEntry] {
        var entries: [LogEntry] = []
        for (key, burst) in bursts where events.contains(burst.last.event) && !burst.isOver {
            if let entry = bursts[key]!.summary(at: now) { entries.append(entry) }
            bursts[key]!.isOver = true
            bursts[key]!.turns += 1
        }
        return entries
    }

    /// The entries that are held back together: those of one event whose causes differ in numbers at most, such as
    /// addresses.
    private func key(of entry: LogEntry) -> String? {
        guard let cause = entry.cause else { return nil }
        let key = "\(entry.event) \(cause.filter { !$0.isNumber })"
        return bursts[key] == nil && bursts.count >= Self.maximumCauses ? entry.event : key
    }
}
