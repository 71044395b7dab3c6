import QueueCore

/// What was read of a file before the transaction that imports it. A transaction that waits for the file would be idle,
/// and PostgreSQL may end it.
struct ReadAhead {
    /// The tokens of the file, if it has had nothing else so far.
    private var tokens: BareTokens?
    /// The first rows of any other file.
    private var rows = CopyRows()
    private(set) var isAtEnd = false

    /// Nothing was read.
    init() {}

    /// Collects the tokens of a file that has nothing else, up to about `limit` of them. Stops at the first line of any
    /// other file, or soon after it.
    init(
        of file: DeviceFile, by reader: inout DeviceFileReader, atMost limit: Int, progress: (Int) -> Void
    ) throws {
        reader.collectTokens()
        while !isAtEnd, reader.collected?.isFull(limit) == false {
            if let piece = try file.next() {
                try reader.read(piece, into: &rows)
            } else {
                isAtEnd = true
                try reader.finish(into: &rows)
            }
            progress(reader.deviceCount)
        }
        tokens = reader.takeTokens()
        if isAtEnd { tokens?.sort() }
    }

    /// All tokens of the file, sorted and each once; nil if there is more to the file.
    var allTokens: BareTokens? { isAtEnd ? tokens : nil }

    /// Writes what was read to the stage. Returns the last piece, to which further rows can be added.
    func writeToStage(_ writer: CopyWriter) async throws(PostgresError) -> CopyRows {
        var rows = rows
        guard let tokens else { return rows }
        let device = DeviceLine()
        for index in 0..<tokens.count {
            rows.startRow(columns: 1 + DeviceColumn.allCases.count)
            // Only lines that say more than a token are found by their numbers.
            rows.add(0 as Int64)
            tokens.add(index, to: &rows)
            device.add(to: &rows)
            if rows.isFull { try await writer.write(rows.take()) }
        }
        return rows
    }
}

extension PostgresConnection {
    /// Copies the tokens of a file straight into the table of devices, for a queue without any. Such a file has nothing
    /// else to say, so nothing has to be looked up in between. COPY fails as a whole if another session adds one of
    /// them meanwhile.
    /// - Parameter lines: the number of the lines that have the tokens.
    /// - Returns: nil if the queue has devices by now. Then nothing was changed.
    func importTokens(
        _ tokens: BareTokens, ofLines lines: Int, inQueue queue: QueueName, patience: Duration
    ) async throws -> DeviceImportSummary? {
        do {
            let summary = try await repeatingIfHeldUp(for: patience) { () -> DeviceImportSummary? in
                let (queueID, _) = try await enter(queue)
                guard try await !hasDevices(inQueue: queueID) else { return nil }
                let new = try await copyIn(.copyTokens) { writer in
                    var rows = CopyRows()
                    for index in 0..<tokens.count {
                        rows.startRow(columns: 2)
                        rows.add(queueID)
                        tokens.add(index, to: &rows)
                        if rows.isFull { try await writer.write(rows.take()) }
                    }
                    try await writer.write(rows.takeLast())
                }
                try await noteImport(inQueue: queueID, activated: new, written: new)
                return DeviceImportSummary(read: lines, inactive: 0, new: new, changed: 0, keptByApp: 0)
            }
            if let summary { return summary }
        } catch PostgresError.duplicate {}
        // To where `repeatingIfHeldUp` has begun.
        try await runScript("rollback to staged")
        return nil
    }
}
