import Foundation
import PostgresStore
import TestSupport
import Testing

/// Checks that `docs/schema.md` has a heading for each table, with a table of its columns and indexes below it.
@Suite(.timeLimit(.minutes(10))) struct `The page on the schema` {
    /// The columns and indexes on the page, written as the database has them: `job: lane smallint`, `job: job_ready
    /// (queue_id, lane, run_at, id)`.
    private func told() throws -> Set<String> {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "docs/schema.md"), encoding: .utf8)
        var told: Set<String> = []
        var table = ""
        for line in page.split(separator: "\n") {
            if let heading = line.wholeMatch(of: /### `(\w+)`/) {
                table = String(heading.output.1)
            } else if line.hasPrefix("| columns | ") {
                for column in line.matches(of: /`(\w+)` ([a-z0-9()\[\]]+)/) {
                    told.insert("\(table): \(column.output.1) \(column.output.2)")
                }
            } else if let index = line.wholeMatch(of: /\| (?:key|unique|index) `(\w+)` \| ((?:`\w+`(?:, )?)+).*/) {
                told.insert("\(table): \(index.output.1) (\(index.output.2.filter { $0 != "`" }))")
            }
        }
        return told
    }

    private static let present = Statement(
        "present",
        #"""
        with tables as (
          select c.oid, c.relname
          from pg_class c
          where c.relnamespace = 'pushq'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition)
        select format('%s: %s %s', t.relname, a.attname,
                      case format_type(a.atttypid, a.atttypmod)
                      when 'integer' then 'int' when 'timestamp with time zone' then 'timestamptz'
                      when 'timestamp with time zone[]' then 'timestamptz[]' when 'double precision' then 'float8' when 'integer[]' then 'int[]'
                      else format_type(a.atttypid, a.atttypmod) end) as line
        from tables t
        join pg_attribute a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
        union all
        select format('%s: %s (%s)', t.relname, c.relname,
                      (select string_agg(pg_get_indexdef(c.oid, n, true), ', ' order by n) from generate_series(1, i.indnkeyatts) n))
        from tables t
        join pg_index i on i.indrelid = t.oid
        join pg_class c on c.oid = i.indexrelid
        """#)

    @Test func `has every column and index of the database, and no others`() async throws {
        let told = try told()
        try await withDatabase { _, database in
            let present = Set(try await database.connect().execute(Self.present).map { $0.text("line") })
            #expect(present.count > 200)
            #expect(present.subtracting(told).sorted() == [], "docs/schema.md lacks these")
            #expect(told.subtracting(present).sorted() == [], "docs/schema.md has these, and the database does not")
        }
    }
}
