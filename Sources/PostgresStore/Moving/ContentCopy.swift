import FoundationEssentials

extension Statement {
    fileprivate static let contentTables = Statement(
        "content_tables",
        #"""
        select t.name, c.all_columns, c.by_day
        from pushq.tables_of_tenants() t, pushq.content_columns(t.name) c
        where t.kind = 'content'
        """#)

    fileprivate static let digestRange = Statement(
        "digest_range",
        #"""
        select coalesce(d.last, '{}') as last, d.count, d.digest::text as digest
        from pushq.digest_range($table, $queue_id, $day, nullif($after::text[], '{}'), $step,
                                nullif($last::text[], '{}')) d
        """#)

    fileprivate static let contentRange = Statement(
        "content_range",
        #"""
        select pushq.content_range($table, $queue_id, $day, nullif($after::text[], '{}'),
                                   nullif($last::text[], '{}')) as condition
        """#)

    fileprivate static let rangeRows = Statement(
        "range_rows",
        #"""
        select pushq.range_rows($table, $queue_id, $day, nullif($after::text[], '{}'),
                                nullif($last::text[], '{}')) as rows
        """#)

    fileprivate static let clearRange = Statement(
        "clear_range",
        #"""
        select pushq.clear_range($table, $queue_id, $day, nullif($after::text[], '{}'),
                                 nullif($last::text[], '{}'))::text
        """#)

    fileprivate static let historyDays = Statement(
        "history_days", "select d.day from pushq.days_of_history() d where d.parent = $table order by d.day")

    fileprivate static let makeDay = Statement("make_day", "select pushq.make_day($table, $day)::text")

    fileprivate static let auditPage = Statement(
        "audit_page",
        #"""
        select a.id, pushq.digest_of_entry(a) as digest, (extract(epoch from a.changed_at) * 1000000)::bigint as time
        from pushq.audit a
        where a.tenant = $tenant and a.id > $after
        order by a.id
        limit $step
        """#)

    /// The entries of a page that the target lacks. `$first` and `$last` are times of the entries themselves, which are
    /// the same in each database.
    fileprivate static let missingEntries = Statement(
        "missing_entries",
        #"""
        select d as digest
        from unnest($digests::text[]) d
        except
        select pushq.digest_of_entry(a)
        from pushq.audit a
        where a.tenant = $tenant and (extract(epoch from a.changed_at) * 1000000)::bigint between $first and $last
        """#)
}

/// Makes a queue's contents in one database equal to those in another, range by range: only ranges that differ are
/// copied. So it may be repeated, and continues wherever it was interrupted. Changes that other sessions make meanwhile
/// are missing, unless they are noted (``NotedChanges``).
///
/// A range is some rows in the order of their keys. Both databases compute a digest of it. If the digests differ, one
/// transaction deletes the range in the target and copies it from the source. Memory holds one range at a time.
struct ContentCopy {
    /// The rows that were compared, and how many of them were copied.
    struct Counts {
        var rows = 0
        var copied = 0
    }

    /// The time limit for one range.
    static let limit = Duration.seconds(120)

    private struct Table {
        let name: String
        let columns: [String]
        let byDay: Bool

        /// The number of rows in a range. A range is held in memory, and a body has 4 KB.
        var step: Int32 { ["body", "message", "result", "fan_out", "wave"].contains(name) ? 500 : 5000 }
    }

    /// A range of rows of a table.
    private struct Range {
        let table: Table
        let day: CalendarDay?
        /// The key before the first row, and the key of the last row; empty: unbounded.
        var after: [String] = []
        var last: [String] = []

        /// The rows after this range.
        var following: Range { Range(table: table, day: day, after: last) }

        func parameters(_ queueID: Int32) -> Parameters {
            [
                "table": .text(table.name), "queue_id": .int4(queueID), "day": .date(day), "after": .textArray(after),
                "last": .textArray(last),
            ]
        }
    }

    let source: PostgresConnection
    let target: PostgresConnection
    let step: Int32?
    private(set) var counts = Counts()
    private let progress: (Counts) -> Void
    private let tables: [Table]

    /// - Parameter step: the number of rows in a range; nil: the usual number.
    init(
        from source: PostgresConnection, to target: PostgresConnection, step: Int32? = nil,
        progress: @escaping (Counts) -> Void
    ) async throws(PostgresError) {
        self.source = source
        self.target = target
        self.step = step
        self.progress = progress
        tables = try await source.execute(.contentTables).map { row in
            Table(name: row.text("name"), columns: row.textArray("all_columns"), byDay: row.bool("by_day"))
        }
    }

    /// Makes the contents of a queue equal.
    mutating func copy(queue there: Int32, to here: Int32) async throws {
        for table in tables {
            guard table.byDay else {
                try await copy(Range(table: table, day: nil), queue: there, to: here)
                continue
            }
            let day: Parameters = ["table": .text(table.name)]
            let days = try await source.execute(.historyDays, day).map { $0.date("day") }
            for day in days {
                _ = try await target.execute(.makeDay, ["table": .text(table.name), "day": .date(day)])
            }
            // A day that the source has dropped since it was copied is empty there.
            let all = try await target.execute(.historyDays, day).map { $0.date("day") }
            for day in all { try await copy(Range(table: table, day: day), queue: there, to: here) }
        }
    }

    private mutating func copy(_ start: Range, queue there: Int32, to here: Int32) async throws {
        let step = step ?? start.table.step
        var next: Page? = Page(start, of: there, step: step, in: source)
        while let page = next {
            let wanted = try await page.digest.value()
            var range = page.range
            range.last = wanted.last
            // The source reads the next range while the target reads this one.
            next = wanted.last.isEmpty ? nil : Page(range.following, of: there, step: step, in: source)
            do {
                let present = try await Digest.of(range, queue: here, step: nil, in: target)
                if wanted.count != present.count || wanted.digest != present.digest {
                    counts.copied += try await makeEqual(range, queue: there, to: here, isEmpty: wanted.count == 0)
                }
            } catch {
                _ = try? await next?.digest.value()
                throw error
            }
            counts.rows += wanted.count
            progress(counts)
        }
    }

    /// What a database has in a range.
    private struct Digest {
        /// The key of the last row; empty: no rows follow.
        let last: [String]
        let count: Int
        let digest: String

        static func of(
            _ range: Range, queue: Int32, step: Int32?, in database: PostgresConnection
        ) async throws(PostgresError) -> Digest {
            let row = try await database.execute(
                .digestRange, range.parameters(queue) + ["step": .int4(step)], within: ContentCopy.limit
            ).one()
            return Digest(last: row.textArray("last"), count: row.count("count"), digest: row.text("digest"))
        }
    }

    /// The next range, whose digest is being read.
    private struct Page {
        let range: Range
        let digest: Prefetch<Digest>

        init(_ range: Range, of queue: Int32, step: Int32, in database: PostgresConnection) {
            self.range = range
            digest = Prefetch(on: database.loop) {
                try await Digest.of(range, queue: queue, step: step, in: database)
            }
        }
    }

    /// Returns how many rows were copied.
    private func makeEqual(_ range: Range, queue there: Int32, to here: Int32, isEmpty: Bool) async throws -> Int {
        do {
            return try await replace(range, queue: there, to: here, isEmpty: isEmpty)
        } catch PostgresError.duplicate {
            // A token or a key has moved from one row to another since it was copied.
            let rows = try await source.execute(.rangeRows, range.parameters(there), within: Self.limit).one()
                .textArray("rows")
            return try await target.transaction(within: Self.limit) {
                _ = try await target.execute(.clearRange, range.parameters(here), within: Self.limit)
                return try await NotedChanges.put(rows, into: range.table.name, of: here, in: target)
            }
        }
    }

    /// Returns how many rows were copied.
    private func replace(_ range: Range, queue there: Int32, to here: Int32, isEmpty: Bool) async throws -> Int {
        let condition = try await source.execute(.contentRange, range.parameters(there)).one().text("condition")
        let columns = range.table.columns.map { "\"" + $0 + "\"" }.joined(separator: ", ")
        let rows =
            isEmpty
            ? nil
            : try await source.copyOut(
                Statement(
                    "copy_contents_out",
                    """
                    copy (select \(here)::int, \(columns)
                          from pushq."\(range.table.name)" r where \(condition)) to stdout (format binary)
                    """), within: Self.limit)
        return try await target.transaction(within: Self.limit) {
            _ = try await target.execute(.clearRange, range.parameters(here), within: Self.limit)
            guard let rows else { return 0 }
            return try await target.copyIn(
                Statement(
                    "copy_contents_in",
                    """
                    copy pushq."\(range.table.name)" (queue_id, \(columns))
                    from stdin (format binary)
                    """), within: Self.limit
            ) { try await $0.write(inPieces: rows) }
        }
    }

    // MARK: The audit

    /// Copies the audit entries about a tenant that the target lacks. A tenant that comes back finds entries from
    /// before it left. Neither numbers nor times tell which these are, because each database has its own clock.
    ///
    /// Runs in the transaction in which the tenant arrives: no session may delete an entry, so only a rollback can undo
    /// it.
    static func copyAudit(
        of tenant: String, from source: PostgresConnection, to target: PostgresConnection
    ) async throws {
        let columns = "changed_at, login, acting_as, application, address, tenant, object, name, action, changes"
        var after: Int64 = 0
        while true {
            let page = try await source.execute(
                .auditPage, ["tenant": .text(tenant), "after": .int8(after), "step": .int8(5000)], within: limit
            ).map { (id: $0.int8("id"), digest: $0.text("digest"), time: $0.int8("time")) }
            guard let last = page.last else { return }
            after = last.id
            let missing = Set(
                try await target.execute(
                    .missingEntries,
                    [
                        "tenant": .text(tenant), "digests": .textArray(page.map(\.digest)),
                        "first": .int8(page.map(\.time).min()), "last": .int8(page.map(\.time).max()),
                    ], within: limit
                ).map { $0.text("digest") })
            let ids = page.filter { missing.contains($0.digest) }.map { "\($0.id)" }
            guard !ids.isEmpty else { continue }
            let rows = try await source.copyOut(
                Statement(
                    "copy_audit_out",
                    """
                    copy (select \(columns) from pushq.audit where id = any ('{\(ids.joined(separator: ","))}') order by id)
                    to stdout (format binary)
                    """), within: limit)
            _ = try await target.copyIn(
                Statement("copy_audit_in", "copy pushq.audit (\(columns)) from stdin (format binary)"), within: limit
            ) { try await $0.write(inPieces: rows) }
        }
    }
}
