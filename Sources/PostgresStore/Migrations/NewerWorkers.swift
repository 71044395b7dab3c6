extension Migrator {
    /// Refuses to go on while workers run whose version is newer than the program's.
    ///
    /// Two versions may have the same migrations and other functions. The older one would replace the functions that a
    /// newer worker calls, drop those that only the newer version has, and revoke rights that it needs.
    func checkWorkers() async throws {
        guard let version, let own = VersionNumber(version) else { return }
        // Before the first functions are there, no worker has started.
        guard try await connection.execute(.seesWorkers).one().bool("sees") else { return }
        let running = try await connection.execute(.runningVersions).map { $0.text("version") }
        let newer = running.compactMap(VersionNumber.init).filter { own < $0 }
        if let newest = newer.max() { throw MigrationError.newerWorkers(newest.text, program: version) }
    }
}

/// A version such as `0.2.0`, which is compared by its numbers. What follows a `-` or `+` does not count.
struct VersionNumber: Comparable {
    let text: String
    private let numbers: [Int]

    /// Returns nil for a text that is no version, of which nothing can be said.
    init?(_ text: String) {
        let parts = text.prefix { $0 != "-" && $0 != "+" }.split(separator: ".", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { Int($0) }
        guard numbers.count == parts.count else { return nil }
        self.text = text
        self.numbers = numbers
    }

    static func == (one: Self, other: Self) -> Bool { one.numbers == other.numbers }

    static func < (one: Self, other: Self) -> Bool { one.numbers.lexicographicallyPrecedes(other.numbers) }
}

extension Statement {
    fileprivate static let seesWorkers = Statement(
        "sees_workers", "select to_regprocedure('pushq.is_alive(timestamptz)') is not null as sees")
    fileprivate static let runningVersions = Statement(
        "running_versions", "select distinct version from pushq.worker where pushq.is_alive(seen_at)")
}
