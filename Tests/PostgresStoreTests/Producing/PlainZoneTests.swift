import Foundation
import PostgresStore
import TestSupport
import Testing

/// Compares `pushq.plain_zone` with this machine's time zone database, which may be newer than the list in the
/// function.
@Suite(.timeLimit(.minutes(10))) struct `The one name of a time zone` {
    private static let folder = "/usr/share/zoneinfo"
    private static let isInstalled = ["tzdata.zi", "zone.tab"].allSatisfy {
        FileManager.default.fileExists(atPath: "\(folder)/\($0)")
    }

    private static func lines(of file: String) throws -> [[String]] {
        try String(contentsOfFile: "\(folder)/\(file)", encoding: .utf8).split(separator: "\n")
            .filter { !$0.hasPrefix("#") }.map { $0.split { $0 == " " || $0 == "\t" }.map(String.init) }
    }

    @Test(.enabled(if: isInstalled)) func `is that of a place of a country, wherever there is one`() async throws {
        let places = Set(try Self.lines(of: "zone.tab").map { $0[2] })
        let links = Dictionary(
            uniqueKeysWithValues: try Self.lines(of: "tzdata.zi").filter { $0[0] == "L" }.map { ($0[2], $0[1]) })
        #expect(places.count > 300 && links.count > 100)
        try await withDatabase { _, database in
            let store = try await database.connect()
            // Distributions differ in which places have a history of their own; this year's clocks are the same.
            let statement = Statement(
                "plain",
                """
                select n.z, n.plain,
                       (select bool_and((now() + m * interval '1 month') at time zone n.target
                                        = (now() + m * interval '1 month') at time zone n.plain)
                        from generate_series(0, 11) m) as agrees
                from (
                  select z, t.target, pushq.plain_zone(z) as plain
                  from unnest($1::text[], $2::text[]) t(z, target)) n
                """)
            let names = places.union(links.keys).sorted()
            let targets = names.map { links[$0] ?? $0 }
            for row in try await store.execute(statement, [.textArray(names), .textArray(targets)]) {
                let (name, plain) = (row.text("z"), row.text("plain"))
                guard !places.contains(name) else {
                    #expect(plain == name)
                    continue
                }
                #expect(places.contains(plain) || ["UTC", "GMT"].contains(plain), "\(name) is \(plain)")
                #expect(row.bool("agrees"), "\(name) is \(plain)")
            }
        }
    }
}
