package import QueueCore
import Transport

extension PostgresConnection {
    /// The time limit for a file. A million devices take seconds; the limit allows for a slow disk and a slow source.
    static let fileLimit = Duration.seconds(3600)

    /// Imports the devices of a file: all of them or none. An import does not count as a registration by the app.
    ///
    /// - Parameters:
    ///   - reactivates: whether inactive devices come back. Devices that were replaced by another token, or that were
    ///     deactivated on purpose, stay inactive.
    ///   - keepsGoing: whether broken lines are left out. If not, one broken line means that nothing is imported.
    ///   - patience: how long the import is retried while other transactions hold locks that it needs.
    ///   - limit: about how many bare tokens are collected in memory: less than 150 MB of usual ones. A container may
    ///     have no more than 256 MB.
    ///   - progress: called with the number of devices read so far.
    /// - Throws: ``DeviceFileError`` for one broken line, ``RefusedLines`` for several, ``ImportHeldUp`` if other
    ///   transactions held the locks until the end.
    package func importDevices(
        from file: DeviceFile, inQueue queue: QueueName, reactivates: Bool, keepsGoing: Bool = false,
        patience: Duration = heldUpLimit, collecting limit: Int = 2_000_000, progress: (Int) -> Void
    ) async throws -> DeviceImportSummary {
        // Runs before the transaction, which a refusal would abort. Lists and previews do not need it: the function
        // that adds tokens to a list does it itself, and a preview draws no number.
        try await followTimeline()
        // A file may be long, and the name of its queue misspelt.
        let queueID = try await execute(.checkQueue, ["queue": .queue(queue)]).one().int4("queue_id")
        var reader = DeviceFileReader(file: file.name, for: .importing, notesBrokenLines: true)
        let ahead =
            try await hasDevices(inQueue: queueID)
            ? ReadAhead() : ReadAhead(of: file, by: &reader, atMost: limit, progress: progress)
        let (done, installations) = try await transaction(within: Self.fileLimit) {
            // Allows a sort of a million tokens in memory. Applies to this transaction only.
            try await runScript("set local work_mem = '256MB'")
            if ahead.allTokens == nil {
                _ = try await stageDevices(from: file, after: ahead, by: &reader, progress: progress)
            }
            let (refused, dropped) = try await refuseLines(of: reader, file: file.name)
            guard refused.count == 0 || keepsGoing else {
                if refused.count == 1 { throw refused.refusals[0] }
                throw refused
            }
            let lines = StagedLines(
                read: reader.deviceCount - dropped.lines, inactive: reader.inactiveCount - dropped.inactive,
                namesMore: reader.namedCount > 0, deactivates: reader.inactiveCount > 0,
                hasProfiles: reader.profileCount > 0, reactivates: reactivates)
            var (summary, installations) = try await importLines(lines, ahead, inQueue: queue, patience: patience) {
                _ = try await stageDevices(from: file, after: ahead, by: &reader, progress: progress)
            }
            (summary.refused, summary.refusals) = (refused.count, refused.refusals)
            return (summary, installations)
        }
        var summary = done
        var heldUp = 0
        let deadline = loop.now + patience
        for part in installations {
            let kept = try await keepOneToken(of: part, until: deadline)
            summary.replaced += kept.replaced
            heldUp += kept.heldUp
        }
        guard heldUp == 0 else { throw InstallationsHeldUp(count: heldUp) }
        return summary
    }

    /// What is known about the lines of a file once they are staged.
    private struct StagedLines {
        let read: Int
        let inactive: Int
        /// Whether any line says more than its token and that the device is inactive.
        let namesMore: Bool
        let deactivates: Bool
        let hasProfiles: Bool
        let reactivates: Bool
    }

    /// Imports the tokens of the file if it has nothing else and was read ahead, and otherwise the staged lines.
    /// - Parameter stage: stages the tokens, if they have to be compared with devices that were added meanwhile.
    private func importLines(
        _ lines: StagedLines, _ ahead: ReadAhead, inQueue queue: QueueName, patience: Duration,
        stage: () async throws -> Void
    ) async throws -> (DeviceImportSummary, [Installations]) {
        let deadline = loop.now + patience
        if let tokens = ahead.allTokens {
            if let summary = try await importTokens(tokens, ofLines: lines.read, inQueue: queue, patience: patience) {
                return (summary, [])
            }
            try await stage()
        }
        return try await repeatingIfHeldUp(for: deadline - loop.now) {
            try await importStaged(lines, inQueue: queue)
        }
    }

    private func importStaged(
        _ lines: StagedLines, inQueue queue: QueueName
    ) async throws -> (DeviceImportSummary, [Installations]) {
        let (queueID, hasQuota) = try await enter(queue)
        try await lockKnownDevices(ofQueue: queueID, lines)
        let returning = try await returning(
            toQueue: queueID, reactivates: lines.reactivates,
            if: hasQuota && (lines.reactivates || lines.deactivates))
        if lines.reactivates { _ = try await execute(.reactivateStagedDevices, ["queue_id": .int4(queueID)]) }
        // Runs first, so that devices that other transactions have added meanwhile count as existing below.
        let new = try await insertStagedDevices(inQueue: queueID)
        let known = try await changeKnownDevices(ofQueue: queueID, lines, new: new)
        var (profiles, replaced) = (0, 0)
        var installations: [Installations] = []
        if lines.hasProfiles {
            let queue: Parameters = ["queue_id": .int4(queueID)]
            let namesKnown: Parameters = ["names_known": .bool(new < lines.read)]
            profiles = try await execute(.importProfiles, namesKnown + queue).affectedRows
            _ = try await execute(.lockImportedTokens, queue)
            replaced = try await count(.replaceImportedTokens, queue)
            installations = try await importedInstallations(ofQueue: queueID)
        }
        // Devices that the file activates, less those that it deactivates for them: a new token for a phone is not one
        // more device.
        try await noteImport(
            inQueue: queueID, activated: new + returning - replaced, written: new + known.changed)
        let summary = DeviceImportSummary(
            read: lines.read, inactive: lines.inactive, new: new, changed: known.changed, keptByApp: known.keptByApp,
            keptActive: known.keptActive, keptInactive: known.keptInactive, profiles: profiles, replaced: replaced)
        return (summary, installations)
    }

    /// Checks the quota and tells the audit, when all devices are written.
    func noteImport(inQueue queueID: Int32, activated: Int, written: Int) async throws(PostgresError) {
        _ = try await execute(
            .checkDeviceQuota, ["queue_id": .int4(queueID), "devices": .int8(Int64(activated))])
        _ = try await execute(.noteImport, ["queue_id": .int4(queueID), "devices": .int8(Int64(written))])
    }

    func hasDevices(inQueue queueID: Int32) async throws(PostgresError) -> Bool {
        try await execute(.hasDevices, ["queue_id": .int4(queueID)]).one().bool("has_devices")
    }

    func enter(_ queue: QueueName) async throws(PostgresError) -> (queueID: Int32, hasQuota: Bool) {
        let row = try await waitingForCalls { () async throws(PostgresError) in
            try await execute(.enterQueue, ["queue": .queue(queue)]).one()
        }
        return (row.int4("queue_id"), row.bool("has_quota"))
    }

    /// Returns how many devices the file brings back, less the new ones that are inactive from the start. Added to the
    /// number of new devices, this gives the number that become active.
    private func returning(
        toQueue queueID: Int32, reactivates: Bool, if isNeeded: Bool
    ) async throws(PostgresError) -> Int {
        guard isNeeded else { return 0 }
        let parameters: Parameters = ["queue_id": .int4(queueID), "reactivates": .bool(reactivates)]
        let row = try await execute(.countReturning, parameters).one()
        return row.count("returning") - row.count("idle")
    }

    private func lockKnownDevices(ofQueue queueID: Int32, _ lines: StagedLines) async throws(PostgresError) {
        let queue: Parameters = ["queue_id": .int4(queueID)]
        guard lines.reactivates || lines.namesMore || lines.deactivates || lines.hasProfiles,
            try await hasDevices(inQueue: queueID)
        else { return }
        _ = try await execute(.lockKnownDevices, ["reactivates": .bool(lines.reactivates)] + queue)
    }

    /// Changes the existing devices as their lines say. Each of these statements sorts all lines, so none runs if it
    /// would find nothing: if every line has added a device, or if the lines say nothing about existing devices.
    private func changeKnownDevices(
        ofQueue queueID: Int32, _ lines: StagedLines, new: Int
    ) async throws(PostgresError) -> (changed: Int, keptByApp: Int, keptActive: Int, keptInactive: Int) {
        guard lines.reactivates || lines.namesMore || lines.deactivates, new < lines.read else { return (0, 0, 0, 0) }
        let queue: Parameters = ["queue_id": .int4(queueID)]
        if lines.namesMore { _ = try await execute(.forgetFormerUsers, queue) }
        let changed = try await execute(.updateStagedDevices, ["reactivates": .bool(lines.reactivates)] + queue)
        let others = lines.namesMore ? try await count(.countOthersDevices, queue) : 0
        let active = lines.deactivates ? try await count(.countKeptActive, queue) : 0
        let inactive = lines.reactivates ? try await count(.countKeptInactive, queue) : 0
        return (changed.affectedRows, others, active, inactive)
    }

    func count(_ statement: Statement, _ parameters: Parameters) async throws(PostgresError) -> Int {
        try await execute(statement, parameters).one().count("count")
    }

    /// Returns how many devices did not exist before.
    private func insertStagedDevices(inQueue queueID: Int32) async throws(PostgresError) -> Int {
        try await runScript("savepoint adding")
        do {
            return try await execute(.insertStagedDevices, ["queue_id": .int4(queueID)]).affectedRows
        } catch .duplicate {
            try await runScript("rollback to adding")
            return try await execute(.insertStagedDevicesBesideOthers, ["queue_id": .int4(queueID)]).affectedRows
        }
    }

    /// Copies a file, or its next part, into a stage that lasts as long as the transaction.
    /// - Parameters:
    ///   - ahead: what was read of the file before.
    ///   - limit: the part ends after about this number of devices.
    /// - Returns: whether the whole file has been read.
    func stageDevices(
        from file: DeviceFile, after ahead: ReadAhead = ReadAhead(), by reader: inout DeviceFileReader,
        atMost limit: Int = .max, progress: (Int) throws -> Void
    ) async throws -> Bool {
        try await runScript(Statement.makeDeviceStage)
        let start = reader.deviceCount
        var isAtEnd = ahead.isAtEnd
        _ = try await copyIn(.copyDevices) { writer in
            var rows = try await ahead.writeToStage(writer)
            while !isAtEnd, reader.deviceCount - start < limit {
                if let piece = try file.next() {
                    try reader.read(piece, into: &rows)
                } else {
                    isAtEnd = true
                    try reader.finish(into: &rows)
                }
                try await writer.write(rows.take())
                try progress(reader.deviceCount)
            }
            try await writer.write(rows.takeLast())
        }
        try await runScript("analyze device_stage")
        return isAtEnd
    }
}
