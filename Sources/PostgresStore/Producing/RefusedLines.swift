extension Statement {
    /// The time zones of the lines as they are stored, and what is wrong with them. There are a few hundred names,
    /// however many devices the file has.
    static let makeZoneStage =
        #"""
        create temporary table zone_stage on commit drop as
        select p.time_zone, p.plain, pushq.time_zone_problem(p.plain) as problem
        from (
          select z.time_zone, pushq.plain_zone(z.time_zone) as plain
          from (select distinct time_zone from device_stage where time_zone is not null) z) p
        """#

    static let unknownZones = Statement(
        "unknown_zones", "select time_zone, problem from zone_stage where problem is not null")

    static let linesOfZones = Statement(
        "lines_of_zones",
        "select line, time_zone from device_stage where time_zone = any ($zones::text[]) order by line limit $limit")

    static let dropLinesOfZones = dropLines("drop_lines_of_zones", where: "time_zone = any ($zones::text[])")

    /// The name of a time that is more than a day in the future, if the line has one. Other systems write such times
    /// for “never”. It would be the latest time for ever, so filters would take the device for one that is in use. A
    /// day is room for clocks that differ.
    private static let futureTime = """
        case when seen_at > now() + interval '1 day' then 'seen_at'
             when first_seen_at > now() + interval '1 day' then 'first_seen_at' end
        """

    static let linesOfFuture = Statement(
        "lines_of_future",
        #"""
        select s.line, s.column_name
        from (select line, \#(futureTime) as column_name from device_stage) s
        where s.column_name is not null
        order by s.line
        limit $limit
        """#)

    static let dropLinesOfFuture = dropLines("drop_lines_of_future", where: "(\(futureTime)) is not null")

    private static func dropLines(_ name: String, where condition: String) -> Statement {
        Statement(
            name,
            #"""
            with dropped as (delete from device_stage where \#(condition) returning active)
            select count(*) as lines, count(*) filter (where not active) as inactive from dropped
            """#)
    }
}

/// Lines of a file that were refused. Nothing was imported.
package struct RefusedLines: Error {
    /// The first refusals, in the order of their lines.
    package let refusals: [DeviceFileError]
    /// The number of all refused lines.
    package let count: Int
}

extension PostgresConnection {
    /// Lines that the reader has counted and that were deleted from the stage.
    typealias DroppedLines = (lines: Int, inactive: Int)

    /// Returns what the reader has refused, and deletes the staged lines that only PostgreSQL can refuse: those with a
    /// time in the future, by its clock, and those with an unknown time zone.
    func refuseLines(
        of reader: DeviceFileReader, file: String
    ) async throws(PostgresError) -> (refused: RefusedLines, dropped: DroppedLines) {
        let none = RefusedLines(refusals: reader.refusals, count: reader.refusedCount)
        guard reader.profileCount > 0 else { return (none, (0, 0)) }
        let (early, late) = (try await refuseTimes(file: file), try await refuseZones(file: file))
        let all = (none.refusals + early.refusals + late.refusals).sorted { $0.line < $1.line }
        let dropped = (
            lines: early.dropped.lines + late.dropped.lines, inactive: early.dropped.inactive + late.dropped.inactive
        )
        let refused = RefusedLines(
            refusals: Array(all.prefix(DeviceFileReader.toldRefusals)), count: none.count + dropped.lines)
        return (refused, dropped)
    }

    /// The first lines that are refused, and how many are.
    private typealias Refusals = (refusals: [DeviceFileError], dropped: DroppedLines)

    private static let toldLineLimit: Parameters = ["limit": .int8(Int64(DeviceFileReader.toldRefusals))]

    private func refuseTimes(file: String) async throws(PostgresError) -> Refusals {
        let lines = try await execute(.linesOfFuture, Self.toldLineLimit).map { row in
            DeviceFileError(
                file: file, line: row.count("line"),
                problem: "'\(row.text("column_name"))' is in the future: leave the field empty if the time is not known"
            )
        }
        guard !lines.isEmpty else { return ([], (0, 0)) }
        return (lines, try await drop(.dropLinesOfFuture, [:]))
    }

    private func refuseZones(file: String) async throws(PostgresError) -> Refusals {
        try await runScript(Statement.makeZoneStage)
        let unknown = try await execute(.unknownZones)
        let problems = Dictionary(
            unknown.map { ($0.text("time_zone"), $0.text("problem")) }, uniquingKeysWith: { one, _ in one })
        guard !problems.isEmpty else { return ([], (0, 0)) }
        let zones: Parameters = ["zones": .textArray(problems.keys.sorted())]
        let lines = try await execute(.linesOfZones, Self.toldLineLimit + zones).map { row in
            DeviceFileError(file: file, line: row.count("line"), problem: problems[row.text("time_zone")] ?? "")
        }
        return (lines, try await drop(.dropLinesOfZones, zones))
    }

    private func drop(_ statement: Statement, _ parameters: Parameters) async throws(PostgresError) -> DroppedLines {
        let row = try await execute(statement, parameters).one()
        return (lines: row.count("lines"), inactive: row.count("inactive"))
    }
}
